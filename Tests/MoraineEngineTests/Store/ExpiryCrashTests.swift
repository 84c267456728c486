import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Entries that expire, across crashes and in stores that several openings share.
@Suite(.timeLimit(.minutes(10))) struct ExpiryCrashTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private struct Wrong: Error {
    let what: String
  }

  private static func configuration(
    _ clock: ManualClock, _ mode: Store.Configuration.IOMode = .mapped
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    configuration.clock = clock
    configuration.expiryGrace = .milliseconds(10)
    configuration.reapInterval = .seconds(1_000_000)
    configuration.checkpointFloorBytes = 0
    // The experiment needs the same calls in each run: the tests compact themselves.
    configuration.compaction = .manual
    return configuration
  }

  /// A million reads at times around the expiry of their keys, with crashes in between.
  @Test(arguments: modes)
  func noReadReturnsAnExpiredKeyAtItsBoundary(mode: Store.Configuration.IOMode) async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Self.configuration(clock, mode)
    configuration.segmentSizeBytes = 64 << 10
    let seed: UInt64 = 23
    var generator = SeededGenerator(seed: seed)
    var disk = SimulatedDisk()
    var model: [Key: UInt64] = [:]
    var readCount = 0
    while readCount < 500_000 {
      let store = try disk.openStore(configuration: configuration)
      for _ in 0..<25 {
        for _ in 0..<20 {
          let key = Key("key-\(Int.random(in: 0..<100, using: &generator))")
          let expiry = clock.milliseconds + UInt64.random(in: 1...40, using: &generator)
          try await store.set([1], forKey: key, expiring: .at(milliseconds: expiry))
          model[key] = expiry
        }
        clock.advance(by: .milliseconds(Int.random(in: 1...20, using: &generator)))
        let now = clock.milliseconds
        if Int.random(in: 0..<5, using: &generator) == 0 { try await store.removeExpired() }
        if Int.random(in: 0..<20, using: &generator) == 0 { try await store.compact() }
        let snapshot = try await store.snapshot()
        for (key, expiry) in model {
          let isVisible = expiry > now
          guard try await store.contains(key) == isVisible,
            try await (store.value(forKey: key) != nil) == isVisible,
            try snapshot.contains(key) == isVisible
          else { throw Wrong(what: "\(key) expires at \(expiry), seed \(seed), time \(now)") }
          readCount += 3
        }
      }
      try await store.sync()
      disk = SimulatedDisk(disk.image(.nothing))
    }
  }

  /// Nothing that was renewed is deleted, and nothing that has expired is visible, whenever the
  /// process dies.
  @Test(arguments: modes)
  func everyCrashAroundAReapingKeepsWhatWasRenewed(
    mode: Store.Configuration.IOMode
  ) async throws {
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (8, 2)
    let tally = try await experiment.run { disk, ledger in
      let clock = ManualClock(startingAt: 1_000_000)
      let store = try disk.openStore(configuration: Self.configuration(clock, mode))
      ledger.begin()
      for number in 0..<6 {
        try await store.set(
          [0], forKey: Key("\(number)"), expiring: .at(milliseconds: 1_000_100))
      }
      try await store.sync()
      ledger.becomeDurable()
      ledger.begin()
      try await store.set([1], forKey: "0", expiring: .never)
      try await store.set([1], forKey: "1", expiring: .at(milliseconds: 2_000_000))
      try await store.sync()
      ledger.becomeDurable()
      clock.advance(toMilliseconds: 1_000_200)
      try await store.removeExpired()
      try await store.compact()
      try await store.close()
    } check: { disk, steps in
      let clock = ManualClock(startingAt: 1_000_200)
      let store = try disk.openStore(configuration: Self.configuration(clock, mode))
      let least = steps.lowerBound
      for number in 0..<6 {
        let value = try await store.value(forKey: Key("\(number)"))
        guard value != [0] else { throw Wrong(what: "the expired key \(number) is visible") }
        if least >= 2, number < 2, value != [1] {
          throw Wrong(what: "the renewed key \(number) was deleted")
        }
      }
      try await store.removeExpired()
      if least >= 2, try await store.statistics().count != 2 {
        throw Wrong(what: "expired entries were not deleted after the crash")
      }
      guard try await store.verify().isSound else { throw Wrong(what: "not sound") }
      try await store.close()
    }
    #expect(tally.crashPoints > 20)
  }

  @Test(arguments: modes)
  func openingsThatShareAStoreDeleteEachEntryOnce(
    mode: Store.Configuration.IOMode
  ) async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Self.configuration(clock, mode)
    configuration.sharing = .shared
    let directory = try TestDirectory()
    let one = try Store(at: directory.path, configuration: configuration)
    let other = try Store(at: directory.path, configuration: configuration)
    for number in 0..<50 {
      let store = number % 2 == 0 ? one : other
      try await store.set([1], forKey: Key("\(number)"), expiring: .at(milliseconds: 1_000_100))
    }
    #expect(try await one.count() == 50)
    clock.advance(toMilliseconds: 1_000_105)
    #expect(try await other.count() == 0)
    // One opening renews an entry that another one is about to delete.
    try await one.set([2], forKey: "7", expiring: .at(milliseconds: 2_000_000))
    clock.advance(toMilliseconds: 1_000_200)
    async let first = one.removeExpired()
    async let second = other.removeExpired()
    #expect(try await first + second == 49)
    #expect(try await one.lastSequence().rawValue == 50 + 1 + 49, "each entry is deleted once")
    #expect(try await one.value(forKey: "7") == [2])
    #expect(try await other.value(forKey: "7") == [2])
    #expect(try await one.statistics().count == 1)
    try await one.close()
    try await other.close()
  }

  /// The opening that wrote the entry is closed when the time of the entry comes.
  @Test func entriesOfOtherOpeningsAreDeletedInTheBackground() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    let log = EventLog()
    var configuration = Self.configuration(clock)
    configuration.sharing = .shared
    configuration.reapInterval = .milliseconds(100)
    let directory = try TestDirectory()
    let one = try Store(at: directory.path, configuration: configuration)
    configuration.onEvent = log.add
    let other = try Store(at: directory.path, configuration: configuration)
    try await one.set([1], forKey: "key", expiring: .at(milliseconds: 1_000_100))
    #expect(try await other.value(forKey: "key") == [1])
    try await one.close()
    #expect(try await other.value(forKey: "key") == [1])
    clock.advance(toMilliseconds: 1_001_000)
    await log.arrival(of: "entriesExpired")
    #expect(try await other.statistics().count == 0)
    try await other.close()
  }

  @Test func salvageKeepsTheExpiry() async throws {
    let clock = ManualClock(startingAt: 3_000_000_000_000)
    let directory = try TestDirectory()
    let configuration = Self.configuration(clock)
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([1], forKey: "key", expiring: .at(milliseconds: 4_000_000_000_000))
      try await store.set([1], forKey: "stays")
    }
    let target = try TestDirectory()
    _ = try await Store.salvage(directory.path, to: target.path)
    let store = try Store(at: target.path, configuration: configuration)
    #expect(try await store.expiry(forKey: "key") == .at(milliseconds: 4_000_000_000_000))
    #expect(try await store.expiry(forKey: "stays") == .never)
    try await store.close()
  }
}
