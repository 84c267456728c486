import Synchronization

/// A test that crashes your program at every change of the disk, and calls your check on each disk
/// that a crash could leave.
///
/// ```swift
/// let tally = try await CrashExperiment().run { disk, ledger in
///   let library = try Library(store: disk.openStore())
///   for number in 1...20 {
///     ledger.begin()
///     try await library.add(Book(number: number))   // durable when it returns
///     ledger.becomeDurable()
///   }
/// } check: { disk, steps in
///   let library = try Library(store: disk.openStore())
///   let count = try await library.count()
///   guard steps.contains(UInt64(count)) else { throw Lost("\(count) books, not \(steps)") }
/// }
/// ```
///
/// The store runs on a ``SimulatedDisk``. The experiment records a crash point before each call
/// that would change the disk and at each call of the ledger. For every crash point it passes the
/// disks that a power failure could leave to the check: all combinations of surviving pages and
/// names if they are few, a seeded selection otherwise.
///
/// The experiment runs the work twice: with the log of the store mapped, as in a real program, and
/// with a call for each write. The second run also tries a crash between two writes of one step.
///
/// Only an error that the check throws counts: use `try #require`, not `#expect`. A trap or a hang
/// in the work or the check ends or blocks your test process. <doc:TestingRecovery> describes how
/// an exit test contains it.
public struct CrashExperiment: Sendable {
  /// Seed of all random choices of the experiment.
  public var seed: UInt64
  /// Maximum number of combinations of surviving pages and names to try at each crash point.
  public var subsetsPerPoint = 50
  /// Number of disks with pages torn between sectors to try at each crash point.
  public var tornPerPoint = 10
  /// Period of the crash points at which the process dies first and the machine later: 1 for every
  /// crash point, 0 for none.
  ///
  /// At these points the check runs on the files that the dead process left in the file cache, and
  /// again on the disks that a power failure during or after that check leaves. The check must
  /// therefore accept the changes that an earlier check made.
  public var killPeriod = 0
  /// The only crash to try, as the text of ``CrashViolation/circumstances``; nil to try all.
  ///
  /// The work still runs completely, and must make the same calls as before. Work of several
  /// concurrent tasks may make other calls. If the crash does not occur again,
  /// ``run(work:check:)`` throws a ``CrashViolation``.
  public var only: String?
  /// Called before each check, with the text that ``only`` accepts. When a check traps, the text of
  /// the last call names the crash.
  public var willCheck: (@Sendable (_ circumstances: String) -> Void)?

  /// Creates an experiment. The same seed repeats the same random choices.
  public init(seed: UInt64 = 1) {
    self.seed = seed
  }

  /// Runs the work twice, and the check on each disk that a crash of the work could leave.
  ///
  /// - Parameters:
  ///   - work: performs its steps one after the other, and announces each to the ledger. It may
  ///     open and close stores on the disk. It runs twice, each time on an empty disk.
  ///   - check: opens the store on a disk that a crash left. It receives the smallest and the
  ///     largest number of steps that the store may contain. It may write, and throws when
  ///     something is wrong.
  /// - Returns: the numbers of crash points and disks that were tried.
  /// - Throws: ``CrashViolation`` when the check throws, with a description of the error of the
  ///   check; every error of the work.
  @discardableResult
  nonisolated(nonsending) public func run(
    work: (SimulatedDisk, CrashLedger) async throws -> Void,
    check: (SimulatedDisk, ClosedRange<UInt64>) async throws -> Void
  ) async throws -> CrashTally {
    var tally = CrashTally()
    for isMapped in [true, false] {
      for point in try await points(work, isMapped: isMapped) {
        tally.crashPoints += 1
        try await judge(point, isMapped, &tally, check)
        if killPeriod > 0, point.number.isMultiple(of: killPeriod) {
          try await judgeAfterKill(at: point, isMapped, &tally, check)
        }
      }
    }
    if let only, tally.distinctImages == 0 {
      throw violation(only, "this crash has not come up again: the work has made other calls")
    }
    return tally
  }

  nonisolated(nonsending) private func points(
    _ work: (SimulatedDisk, CrashLedger) async throws -> Void, isMapped: Bool
  ) async throws -> [CrashPoint] {
    let disk = SimulatedDisk()
    if !isMapped { disk.isNeverMapped.store(true, ordering: .relaxed) }
    let ledger = CrashLedger()
    let recorder = CrashRecorder(ledger)
    recorder.watch(disk)
    ledger.setObserver { [unowned disk] in recorder.take(disk) }
    defer {
      disk.setObserver(nil)
      ledger.setObserver(nil)
    }
    try await work(disk, ledger)
    recorder.take(disk)
    return recorder.points
  }

  nonisolated(nonsending) private func judge(
    _ point: CrashPoint, _ isMapped: Bool, _ tally: inout CrashTally,
    _ check: (SimulatedDisk, ClosedRange<UInt64>) async throws -> Void
  ) async throws {
    let base = seed &* 1_000_003 &+ UInt64(point.number) &* 64
    var seen: Set<DiskImage.Fingerprint> = []
    let place = "\(isMapped ? "mapped" : "positional"), crash \(point.number), "
    if let only, !only.hasPrefix(place) { return }
    for (policy, image) in point.moment.images(
      subsets: subsetsPerPoint, torn: tornPerPoint, seed: base)
    {
      let circumstances = "\(place)\(policy)"
      if let only, only != circumstances { continue }
      tally.images += 1
      // When only the process dies, all acknowledged steps survive.
      let isKill = policy == .everything
      guard seen.insert(image.fingerprint).inserted || isKill else { continue }
      let least = isKill ? point.before.acknowledged : point.before.durable
      try await judge(
        SimulatedDisk(image), least...max(least, point.after.begun), circumstances, &tally, check)
    }
  }

  /// Maximum number of crash points to try in the next process.
  private static let nextPointLimit = 12

  nonisolated(nonsending) private func judgeAfterKill(
    at point: CrashPoint, _ isMapped: Bool, _ tally: inout CrashTally,
    _ check: (SimulatedDisk, ClosedRange<UInt64>) async throws -> Void
  ) async throws {
    let place = "\(isMapped ? "mapped" : "positional"), crash \(point.number), the process killed"
    if let only, !only.hasPrefix(place) { return }
    let disk = SimulatedDisk(point.moment)
    if !isMapped { disk.isNeverMapped.store(true, ordering: .relaxed) }
    let choice = CrashPointChoice(limit: Self.nextPointLimit, phase: point.number)
    let recorder = CrashRecorder(CrashLedger(), choice: choice)
    recorder.watch(disk)
    defer { disk.setObserver(nil) }
    let acknowledged = point.before.acknowledged
    try await judge(
      disk, acknowledged...max(acknowledged, point.after.begun), place, &tally, check)
    disk.setObserver(nil)
    let durable = point.before.durable
    let steps = durable...max(durable, point.after.begun)
    var seen: Set<DiskImage.Fingerprint> = []
    for later in recorder.points + [CrashPoint(disk.moment())] {
      for (policy, image) in later.moment.images(
        subsets: min(subsetsPerPoint, 3), torn: min(tornPerPoint, 1),
        seed: seed &* 1_000_003 &+ UInt64(later.number) &* 64)
      {
        let circumstances = "\(place), the next one's crash \(later.number), \(policy)"
        if let only, only != circumstances { continue }
        tally.images += 1
        guard seen.insert(image.fingerprint).inserted else { continue }
        try await judge(SimulatedDisk(image), steps, circumstances, &tally, check)
      }
    }
  }

  nonisolated(nonsending) private func judge(
    _ disk: SimulatedDisk, _ steps: ClosedRange<UInt64>, _ circumstances: String,
    _ tally: inout CrashTally,
    _ check: (SimulatedDisk, ClosedRange<UInt64>) async throws -> Void
  ) async throws {
    tally.distinctImages += 1
    let image = disk.image(.everything)
    willCheck?(circumstances)
    do { try await check(disk, steps) } catch {
      var violation = violation(circumstances, "\(error)")
      violation.image = image
      throw violation
    }
  }

  private func violation(_ circumstances: String, _ finding: String) -> CrashViolation {
    CrashViolation(
      scenario: "experiment", seed: seed, circumstances: circumstances, finding: finding,
      replay: """
        in your test, set the experiment's `seed` to \(seed) and its `only` to "\(circumstances)", and \
        run it: that crash alone is tried
        """)
  }
}
