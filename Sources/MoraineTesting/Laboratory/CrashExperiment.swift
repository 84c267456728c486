import Synchronization

/// Crashes a program of yours that keeps its data in a store, and has you check what it finds
/// afterwards.
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
///   let count = try await library.count
///   guard steps.contains(UInt64(count)) else { throw Lost("\(count) books, not \(steps)") }
/// }
/// ```
///
/// The store runs on a ``SimulatedDisk``; a moment is taken before each call that would change the
/// disk and at each word to the ledger, and for every moment the disks that a power failure could
/// leave are handed to the check. All combinations of what survives, when there are few; a seeded
/// choice otherwise.
///
/// The work is done twice: with the store's log mapped, as programs have it, and with a call for
/// each write, so that a crash between two writes of one step is tried too.
///
/// Only what the check throws counts: use `try #require`, not `#expect`. A trap or a hang in the
/// work or the check is one of your test; <doc:TestingRecovery> tells how an exit test keeps it
/// there.
public struct CrashExperiment: Sendable {
  /// Seed of all random choices.
  public var seed: UInt64
  /// How many combinations of surviving pages and names are tried at each moment, at most.
  public var subsetsPerPoint = 50
  /// How many disks with pages torn between sectors are tried at each moment.
  public var tornPerPoint = 10
  /// At every so many crash points the process dies first, and the machine later: the check runs on
  /// what the dead process has left in the file cache, and again on what a power failure at some
  /// call of that check leaves. So the check must accept what a check before it has done; 0 for
  /// never.
  public var killPeriod = 0
  /// One crash in the words of ``CrashViolation/circumstances``: only that one is tried.
  ///
  /// The work is done as ever, and must make the same calls; what several tasks do at once may not.
  /// A crash that does not come up is a violation too.
  public var only: String?
  /// Called before each check, with the crash in the words that ``only`` takes. When a check traps,
  /// what was said last tells which crash it was.
  public var willCheck: (@Sendable (_ circumstances: String) -> Void)?

  /// An experiment that the seed repeats.
  public init(seed: UInt64 = 1) {
    self.seed = seed
  }

  /// - Parameters:
  ///   - work: does its steps one after the other, each announced to the ledger. It may open and
  ///     close stores on the disk as it likes. It is done twice.
  ///   - check: opens what is left; it is given the smallest and the largest number of steps that
  ///     may be there. It may write, and it throws when something is wrong.
  /// - Returns: how much was tried.
  /// - Throws: ``CrashViolation`` when the check threw, with what it threw in words; whatever the
  ///   work throws.
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
      // What the death of the process alone leaves has all that was acknowledged.
      let isKill = policy == .everything
      guard seen.insert(image.fingerprint).inserted || isKill else { continue }
      let least = isKill ? point.before.acknowledged : point.before.durable
      try await judge(
        SimulatedDisk(image), least...max(least, point.after.begun), circumstances, &tally, check)
    }
  }

  /// How many crash points of the next process are tried.
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
