import MoraineEngine
import MoraineTesting

/// A run of sessions on a simulated disk, the crashes of this run, and the runs that go on after
/// each of them.
struct CrashHistory {
  /// The amount of work of a run, and of crashes.
  struct Effort {
    var sessionCount = 3
    var operationCount = 3
    /// The number of moments at which a crash is tried.
    var pointCount = 0
    /// The disks that are tried at each of them, beside the one without and the one with all
    /// unsynced changes.
    var subsetCount = 1
    var tornCount = 1

    static let first = Effort(
      sessionCount: 6, operationCount: 14, pointCount: 12, subsetCount: 2, tornCount: 1)
    /// For a sample of the disks: the run that continues crashes too, from its opening on.
    static let again = Effort(pointCount: 5)
    static let last = Effort()
    /// The period of the disks for which the run that continues crashes too.
    static let againPeriod = 7
  }

  /// Counts that show what a test has reached.
  struct Tally {
    var runs = 0
    var operations = 0
    var failed = 0
    var compactions = 0
    var segments = 0
    /// Disks that a crash has left.
    var disks = 0
    /// Writes that these disks have lost, and writes that they contain although no call has
    /// returned.
    var lost = 0
    var inDoubt = 0
  }

  let seed: UInt64
  private let configuration: Store.Configuration
  private let clock = HistoryClock()
  private(set) var tally = Tally()

  init(seed: UInt64) {
    self.seed = seed
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: 1500 + Int(seed % 4) * 1500, ioMode: seed % 2 == 0 ? .mapped : .positional)
    configuration.checkpointFloorBytes = seed % 4 < 2 ? 0 : 1 << 20
    if seed % 3 == 2 { configuration.sharing = .shared }
    self.configuration = configuration
  }

  /// Runs the sessions, and tries the crashes.
  ///
  /// - Throws: ``HistoryProblem``; the errors of the stores.
  mutating func run() async throws {
    try await run(SimulatedDisk(), HistoryExpectation(), isKill: false, .first)
  }

  private mutating func run(
    _ disk: SimulatedDisk, _ expectation: HistoryExpectation, isKill: Bool, _ effort: Effort
  ) async throws {
    tally.runs += 1
    let seed = seed &* 1_000_003 &+ UInt64(tally.runs)
    let log = HistoryLog(clock)
    let points = CrashPoints(log, limit: effort.pointCount, phase: Int(seed % 61))
    points.watch(disk)
    defer { disk.setObserver(nil) }
    let stores = try (0..<(configuration.sharing == .shared ? 2 : 1)).map { _ in
      try disk.openStore(configuration: configuration)
    }
    let past = try expectation.survivors(
      in: try await ListContents.read(from: stores[0]), isKill: isKill)
    if tally.disks > 0 { count(expectation, past) }
    log.beginServing()
    points.add(stores)
    try await work(stores, log, effort, seed)
    let final = try await ListContents.read(from: stores[stores.count - 1])
    let operations = try Self.numbered(log.returned, final)
    try check(past + operations, final)
    try await close(stores)
    points.take(disk)
    disk.setObserver(nil)
    try await reopen(disk, final)
    tally.operations += operations.count
    tally.failed += log.failedCount
    for point in points.all {
      var left = expectation
      // What the power failure before this run has taken, no later crash can keep.
      if !isKill { left.acknowledged = left.durable }
      if point.before.isServing {
        left = HistoryExpectation(required: past)
        left.add(operations, of: log, point)
      }
      try await crash(point, left, effort, seed)
    }
  }

  private mutating func count(_ expectation: HistoryExpectation, _ past: [HistoryOperation]) {
    let writes = past.filter(\.isWrite)
    tally.lost += expectation.operations.count(where: \.isWrite) - writes.count
    tally.inDoubt += writes.count { !expectation.acknowledged.contains($0.id) }
  }

  private func work(
    _ stores: [Store], _ log: HistoryLog, _ effort: Effort, _ seed: UInt64
  ) async throws {
    let turns = Turns(sessionCount: effort.sessionCount)
    let failures = await withTaskGroup(of: (any Error)?.self) { group in
      for number in 0..<effort.sessionCount {
        let session = ListSession(
          number: number, seed: seed &* 1009 &+ UInt64(number),
          operationCount: effort.operationCount, store: stores[number % stores.count],
          turns: turns, log: log)
        group.addTask {
          var failure: (any Error)?
          do { try await session.run() } catch { failure = error }
          await turns.endStep()
          return failure
        }
      }
      await turns.schedule(seed: seed)
      return await group.reduce(into: []) { $0.append($1) }
    }
    if let failure = failures.compactMap({ $0 }).first { throw failure }
  }

  /// Returns operations with the numbers of their commits, which their marks have.
  private static func numbered(
    _ operations: [HistoryOperation], _ final: ListContents
  ) throws -> [HistoryOperation] {
    try operations.map { operation in
      var operation = operation
      guard operation.hasMark else { return operation }
      guard let sequence = final.marks[operation.id] else {
        throw HistoryProblem("lost: there is no mark of \(operation.id), which was committed")
      }
      operation.sequence = sequence
      return operation
    }
  }

  /// Checks that all operations are present in the order of their numbers, and that the history is
  /// strictly serializable.
  private func check(_ operations: [HistoryOperation], _ final: ListContents) throws {
    let problems = HistoryChecker.problems(operations.map(\.committed), final: final.lists)
    if let problem = problems.first { throw HistoryProblem(problem) }
    _ = try HistoryExpectation(required: operations).survivors(in: final, isKill: true)
  }

  private mutating func close(_ stores: [Store]) async throws {
    for store in stores {
      let statistics = try await store.statistics()
      tally.compactions += Int(statistics.compactionCount)
      tally.segments = max(tally.segments, statistics.segmentCount)
      let report = try await store.verify()
      guard report.isSound else { throw HistoryProblem("verify finds \(report.problems)") }
    }
    for store in stores { try await store.close() }
  }

  private func reopen(_ disk: SimulatedDisk, _ final: ListContents) async throws {
    let store = try disk.openStore(configuration: configuration)
    guard try await ListContents.read(from: store) == final else {
      throw HistoryProblem("closed and opened again, the store contains something else")
    }
    try await store.close()
  }

  /// Continues on the disks that a crash can leave.
  private mutating func crash(
    _ point: CrashPoints.Point, _ expectation: HistoryExpectation, _ effort: Effort, _ seed: UInt64
  ) async throws {
    if effort.pointCount == Effort.first.pointCount {
      // The process dies, the next one works with the same cache, and then the power fails.
      let disk = SimulatedDisk(point.moment)
      try await goOn(disk, expectation, isKill: true, .again, "\(point.number), process killed")
    }
    var seen: Set<DiskImage> = []
    let images = point.moment.images(
      subsets: effort.subsetCount, torn: effort.tornCount, seed: seed &+ UInt64(point.number) &* 64)
    for (policy, image) in images where seen.insert(image).inserted {
      let isFirst = effort.pointCount == Effort.first.pointCount
      let next = isFirst && tally.disks % Effort.againPeriod == 0 ? Effort.again : .last
      try await goOn(
        SimulatedDisk(image), expectation, isKill: policy == .everything, next,
        "\(point.number), \(policy)")
    }
  }

  private mutating func goOn(
    _ disk: SimulatedDisk, _ expectation: HistoryExpectation, isKill: Bool, _ effort: Effort,
    _ words: String
  ) async throws {
    tally.disks += 1
    do {
      try await run(disk, expectation, isKill: isKill, effort)
    } catch {
      throw HistoryProblem("crash \(words): \(error)")
    }
  }
}
