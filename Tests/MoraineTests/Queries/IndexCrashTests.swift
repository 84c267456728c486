import Foundation
import Moraine
import MoraineTesting
import Synchronization
import Testing

/// After a power failure or the death of a process at any call, each index equals the models.
///
/// `MORAINE_INDEX_SEEDS=N` runs N seeds; `MORAINE_INDEX_SEED=N` is the first of them.
@Suite(.timeLimit(.minutes(60))) struct IndexCrashTests {
  private static var seeds: Range<UInt64> {
    let environment = ProcessInfo.processInfo.environment
    let first = environment["MORAINE_INDEX_SEED"].flatMap { UInt64($0) } ?? 0
    let count = environment["MORAINE_INDEX_SEEDS"].flatMap { UInt64($0) } ?? 6
    return first..<first + count
  }

  @Test(arguments: seeds)
  func indexesEqualTheModelsAfterEachCrash(seed: UInt64) async throws {
    let replay = """
      MORAINE_INDEX_SEED=\(seed) MORAINE_INDEX_SEEDS=1 swift test --filter IndexCrashTests
      """
    var run = IndexCrashRun(seed: seed)
    do { try await run.run() } catch {
      Issue.record("\(error); again: \(replay)")
      return
    }
    // A lower figure means that the test no longer reaches crashes.
    #expect(run.diskCount > 20, "again: \(replay)")
    #expect(run.modelCounts.count > 3, "again: \(replay)")
  }
}

/// A run of programs with and without indexes on a simulated disk, and its crashes.
private struct IndexCrashRun {
  struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  let seed: UInt64
  private let clock = ManualClock(startingAt: 1_700_000_000_000)
  private let configuration: Store.Configuration
  private var random: SeededGenerator
  private(set) var diskCount = 0
  /// The different numbers of models that crashes have left.
  private(set) var modelCounts: Set<Int> = []

  init(seed: UInt64) {
    self.seed = seed
    random = SeededGenerator(seed: seed)
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 8192 + Int(seed % 4) * 8192
    configuration.ioMode = seed % 2 == 0 ? .mapped : .positional
    configuration.durability = .none
    configuration.checkpointFloorBytes = seed % 4 < 2 ? 0 : 1 << 20
    configuration.clock = clock
    configuration.expiryGrace = .milliseconds(500)
    if seed % 3 == 2 { configuration.sharing = .shared }
    self.configuration = configuration
  }

  mutating func run() async throws {
    let disk = SimulatedDisk()
    let moments = DiskMoments(limit: 14, phase: Int(seed % 61))
    disk.setObserver { [unowned disk] in moments.take(disk) }
    let stores = try (0..<(configuration.sharing == .shared ? 2 : 1)).map { _ in
      try disk.openStore(configuration: configuration)
    }
    try await work(stores, rounds: 40)
    disk.setObserver(nil)
    for store in stores { try await store.close() }
    for (number, moment) in moments.all {
      var seen: Set<DiskImage> = []
      for (policy, image) in moment.images(subsets: 2, torn: 1, seed: seed &+ UInt64(number))
      where seen.insert(image).inserted {
        do { try await goOn(SimulatedDisk(image), isLast: false) } catch {
          throw Problem(description: "crash at call \(number), \(policy): \(error)")
        }
      }
    }
  }

  private func programs(_ store: Store) throws -> [LocalRepository<Person>] {
    try QueryModelTests.repositories(store)
  }

  /// Writes as different programs do, in one or two openings of the store.
  private mutating func work(_ stores: [Store], rounds: Int) async throws {
    var programs = try stores.map(programs)
    for _ in 0..<rounds {
      let store = Int(random.next() % UInt64(stores.count))
      for _ in 0..<4 {
        let program = programs[store][random.next() % 3 == 0 ? Int(random.next() % 3) : 0]
        try await QueryModelTests.write(program, clock, &random)
      }
      switch random.next() % 10 {
      case 0: try await stores[store].sync()
      case 1: try await stores[store].compact()
      case 2: clock.advance(by: .milliseconds(random.next() % 2_000))
      case 3: try await stores[store].removeExpired()
      case 4: _ = await QueryModelTests.failureToBuild(programs[store][Int(random.next() % 2)])
      case 5: programs[store] = try self.programs(stores[store])
      case 6:
        // Only the program without indexes may remove one.
        try await programs[store][2].removeIndex(named: "tags")
        programs[store] = try self.programs(stores[store])
      default: break
      }
    }
  }

  /// Compares, builds what is missing, and writes on; then the power fails once more.
  private mutating func goOn(_ disk: SimulatedDisk, isLast: Bool) async throws {
    diskCount += 1
    let store = try disk.openStore(configuration: configuration)
    let programs = try programs(store)
    try await compare(programs)
    modelCounts.insert(try await programs[0].count())
    while let error = await QueryModelTests.failureToBuild(programs[0]) {
      guard let duplicate = error.duplicate else { throw error }
      try await programs[0].keyspace.removeValue(forKey: duplicate.key)
    }
    let status = try await programs[0].indexStatus()
    guard status.allSatisfy(\.isReady) else {
      throw Problem(description: "not all indexes are ready: \(status)")
    }
    try await compare(programs)
    if isLast { return try await store.close() }
    try await work([store], rounds: 3)
    try await compare(programs)
    let next = SimulatedDisk(disk.image(diskCount % 2 == 0 ? .nothing : .pages(seed: seed)))
    try await store.close()
    try await goOn(next, isLast: true)
  }

  private mutating func compare(_ programs: [LocalRepository<Person>]) async throws {
    let report = try await programs[0].keyspace.store.verify()
    guard report.isSound else { throw Problem(description: "verify finds \(report.problems)") }
    for (number, program) in programs.enumerated() {
      if let found = try await difference(
        of: program, queries: 4, &random, hasAllIndexes: number == 0)
      {
        throw Problem(description: "program \(number): \(found)")
      }
    }
  }
}

/// The moments of a disk at which a crash is tried, spread over a run.
final class DiskMoments: Sendable {
  private struct State {
    var moments: [(number: Int, moment: DiskMoment)] = []
    var callCount: Int
    var period = 1
  }

  private let limit: Int
  private let state: Mutex<State>

  init(limit: Int, phase: Int) {
    self.limit = limit
    state = Mutex(State(callCount: phase))
  }

  var all: [(number: Int, moment: DiskMoment)] { state.withLock { $0.moments } }

  func take(_ disk: SimulatedDisk) {
    state.withLock { state in
      state.callCount += 1
      guard state.callCount % state.period == 0 else { return }
      state.moments.append((state.callCount, disk.moment()))
      // The number of calls is not known before the run has ended.
      while state.moments.count > limit {
        state.period *= 2
        let period = state.period
        state.moments.removeAll { $0.number % period != 0 }
      }
    }
  }
}
