import Hummingbird
import Moraine
import MoraineHummingbird
import MoraineTesting
import ServerTesting
import Synchronization
import Testing

/// The promises of the driver that Hummingbird's driver in memory does not make.
@Suite(.timeLimit(.minutes(2))) struct DriverTests {
  private let clock = ManualClock(startingAt: 1_700_000_000_000)

  private func driver(
    _ store: Store, _ durability: Durability? = nil
  ) throws
    -> MorainePersistDriver
  {
    MorainePersistDriver(
      in: try store.keyspace(named: "persist"), durability: durability, clock: clock)
  }

  private func memoryStore() -> Store { Store.inMemory(configuration: .stepped(clock)) }

  /// Returns whether this call has created the key.
  private static func creates(
    _ persist: MorainePersistDriver, _ key: String, _ value: Int
  ) async throws -> Bool {
    do {
      try await persist.create(key: key, value: value, expires: .seconds(60))
      return true
    } catch let error as PersistError where error == .duplicate {
      return false
    }
  }

  // MARK: Expiry

  @Test func aKeyIsFreeFromTheMillisecondOfItsExpiryOn() async throws {
    let persist = try driver(memoryStore())
    try await persist.create(key: "a", value: 1, expires: .seconds(10))
    clock.advance(by: .milliseconds(9999))
    await #expect(throws: PersistError.duplicate) { try await persist.create(key: "a", value: 2) }
    #expect(try await persist.getWithTTL(key: "a", as: Int.self)?.ttl == .milliseconds(1))
    clock.advance(by: .milliseconds(1))
    #expect(try await persist.get(key: "a", as: Int.self) == nil)
    #expect(try await persist.getWithTTL(key: "a", as: Int.self) == nil)
    try await persist.create(key: "a", value: 3)
    #expect(try await persist.get(key: "a", as: Int.self) == 3)
    // The second entry has no expiry.
    clock.advance(by: .seconds(1_000_000))
    let found = try #require(try await persist.getWithTTL(key: "a", as: Int.self))
    #expect(found.object == 3 && found.ttl == nil)
  }

  @Test func setWithoutALifetimeOnAnExpiredKeyMakesANewEntry() async throws {
    let persist = try driver(memoryStore())
    try await persist.set(key: "a", value: 1, expires: .seconds(10))
    clock.advance(by: .seconds(10))
    try await persist.set(key: "a", value: 2)
    let found = try #require(try await persist.getWithTTL(key: "a", as: Int.self))
    #expect(found.object == 2 && found.ttl == nil)
  }

  @Test func theKeyspaceGivesNewEntriesItsDefaultLifetime() async throws {
    let keyspace = try memoryStore().keyspace(named: "persist", defaultLifetime: .seconds(30))
    let persist = MorainePersistDriver(in: keyspace, clock: clock)
    try await persist.create(key: "a", value: 1)
    try await persist.set(key: "b", value: 1)
    try await persist.create(key: "c", value: 1, expires: .seconds(5))
    clock.advance(by: .seconds(10))
    try await persist.set(key: "b", value: 2)
    #expect(try await persist.getWithTTL(key: "a", as: Int.self)?.ttl == .seconds(20))
    #expect(try await persist.getWithTTL(key: "b", as: Int.self)?.ttl == .seconds(20))
    #expect(try await persist.get(key: "c", as: Int.self) == nil)
  }

  /// Number of writes that have begun.
  private final class WriteCount: Sendable {
    private let number = Atomic(0)

    var value: Int { number.load(ordering: .relaxed) }

    /// Counts a write, and returns the number of writes before it.
    func begin() -> Int { number.add(1, ordering: .relaxed).oldValue }
  }

  /// Repeats the body while four writers make 4,000 writes.
  private func race(
    _ write: @escaping @Sendable (_ number: Int) async throws -> Void,
    _ body: (_ round: Int) async throws -> Void
  ) async throws {
    let (count, total) = (WriteCount(), 4000)
    try await withThrowingTaskGroup { group in
      for _ in 0..<4 {
        group.addTask {
          var number = count.begin()
          while number < total {
            try await write(number)
            number = count.begin()
          }
        }
      }
      var round = 0
      while count.value < total {
        try await body(round)
        round += 1
      }
      try await group.waitForAll()
    }
  }

  /// One task renews an entry, and others change its value without a lifetime at the same time.
  @Test func aRenewalIsNotLostToSetsWithoutALifetime() async throws {
    let persist = try driver(memoryStore())
    try await persist.create(key: "a", value: -1, expires: .seconds(1))
    try await race { number in
      try await persist.set(key: "a", value: number)
    } _: { round in
      let lifetime = Duration.seconds(2 + round)
      try await persist.set(key: "a", value: -1, expires: lifetime)
      #expect(try await persist.getWithTTL(key: "a", as: Int.self)?.ttl == lifetime)
    }
  }

  /// A value is the lifetime of its entry in seconds, so a mixture of two writes shows.
  @Test func valueAndRemainingTimeBelongToOneWrite() async throws {
    let persist = try driver(memoryStore())
    try await persist.create(key: "a", value: 1, expires: .seconds(1))
    try await race { number in
      try await persist.set(key: "a", value: number + 1, expires: .seconds(number + 1))
    } _: { _ in
      let found = try #require(try await persist.getWithTTL(key: "a", as: Int.self))
      #expect(found.ttl == .seconds(found.object))
    }
  }

  /// A set without a lifetime either makes the entry, so that `create` finds it, or keeps the
  /// lifetime that `create` has given it.
  @Test func aNewEntryDoesNotLoseItsLifetimeToSetsWithoutOne() async throws {
    let persist = try driver(memoryStore())
    for round in 0..<500 {
      let key = "key-\(round)"
      let isCreated = try await withThrowingTaskGroup(of: Bool.self) { group in
        for racer in 0..<4 {
          group.addTask {
            if racer == 2 { return try await Self.creates(persist, key, racer) }
            try await persist.set(key: key, value: racer)
            return false
          }
        }
        return try await group.reduce(false) { $0 || $1 }
      }
      let found = try #require(try await persist.getWithTTL(key: key, as: Int.self))
      #expect(found.ttl == (isCreated ? .seconds(60) : nil))
    }
  }

  @Test func theStoreDeletesExpiredEntries() async throws {
    let (deleted, continuation) = AsyncStream.makeStream(of: Int.self)
    var configuration = Store.Configuration.stepped(clock)
    configuration.onEvent = { event in
      if case .entriesExpired(let count) = event { continuation.yield(count) }
    }
    let persist = try driver(Store.inMemory(configuration: configuration))
    for number in 0..<10 {
      try await persist.create(
        key: "\(number)", value: number, expires: .seconds(number < 7 ? 10 : 1000))
    }
    clock.advance(by: .seconds(12))
    #expect(await deleted.first { _ in true } == 7)
    #expect(try await persist.keyspace.count() == 3)
    #expect(try await persist.get(key: "8", as: Int.self) == 8)
  }

  // MARK: Several drivers

  @Test func twoDriversOfAKeyspaceSeeTheSameEntries() async throws {
    let store = memoryStore()
    let (one, other) = (try driver(store), try driver(store))
    try await one.create(key: "a", value: "one", expires: .seconds(10))
    #expect(try await other.get(key: "a", as: String.self) == "one")
    await #expect(throws: PersistError.duplicate) {
      try await other.create(key: "a", value: "other")
    }
    try await other.set(key: "a", value: "other")
    let found = try #require(try await one.getWithTTL(key: "a", as: String.self))
    #expect(found.object == "other" && found.ttl == .seconds(10))
    try await other.remove(key: "a")
    #expect(try await one.get(key: "a", as: String.self) == nil)
  }

  @Test func driversOfTwoKeyspacesDoNotMeet() async throws {
    let store = memoryStore()
    let one = MorainePersistDriver(in: try store.keyspace(named: "one"))
    let other = MorainePersistDriver(in: try store.keyspace(named: "other"))
    try await one.create(key: "a", value: 1)
    try await other.create(key: "a", value: 2)
    try await one.remove(key: "a")
    #expect(try await other.get(key: "a", as: Int.self) == 2)
  }

  /// Two openings of a shared store stand for two processes.
  @Test func eachKeyIsCreatedOnceByDriversOfTwoOpenings() async throws {
    let folder = try TemporaryFolder()
    var configuration = Store.Configuration.stepped(clock)
    configuration.sharing = .shared
    let first = try await Store.open(at: folder.url, configuration: configuration)
    let second = try await Store.open(at: folder.url, configuration: configuration)
    let drivers = [try driver(first), try driver(second)]
    for round in 0..<50 {
      let winners = try await withThrowingTaskGroup { group in
        for racer in 0..<8 {
          group.addTask {
            try await Self.creates(drivers[racer % 2], "key-\(round)", racer) ? racer : nil
          }
        }
        return try await group.compactMap { $0 }.reduce(into: [Int]()) { $0.append($1) }
      }
      #expect(winners.count == 1)
      for persist in drivers {
        #expect(try await persist.get(key: "key-\(round)", as: Int.self) == winners.first)
      }
    }
    try await first.close()
    try await second.close()
  }

  // MARK: Durability

  @Test func entriesAndExpiriesAreKeptAcrossOpenings() async throws {
    let folder = try TemporaryFolder()
    try await withStore(at: folder.url, configuration: .stepped(clock)) { store in
      let persist = try driver(store)
      try await persist.create(key: "session", value: "ada", expires: .seconds(60))
      try await persist.create(key: "user", value: ["ada"])
    }
    clock.advance(by: .seconds(20))
    try await withStore(at: folder.url, configuration: .stepped(clock)) { store in
      let persist = try driver(store)
      let found = try #require(try await persist.getWithTTL(key: "session", as: String.self))
      #expect(found.object == "ada" && found.ttl == .seconds(40))
      await #expect(throws: PersistError.duplicate) {
        try await persist.create(key: "session", value: "eve")
      }
    }
    clock.advance(by: .seconds(40))
    try await withStore(at: folder.url, configuration: .stepped(clock)) { store in
      let persist = try driver(store)
      #expect(try await persist.get(key: "session", as: String.self) == nil)
      #expect(try await persist.get(key: "user", as: [String].self) == ["ada"])
      try await persist.create(key: "session", value: "grace")
    }
  }

  /// The writes of a driver.
  private enum Write: CaseIterable {
    case create, set, setWithoutALifetime, remove

    func callAsFunction(_ persist: MorainePersistDriver) async throws {
      switch self {
      case .create: try await persist.create(key: "new", value: 2, expires: .seconds(60))
      case .set: try await persist.set(key: "old", value: 2, expires: .seconds(60))
      case .setWithoutALifetime: try await persist.set(key: "old", value: 2)
      case .remove: try await persist.remove(key: "old")
      }
    }
  }

  /// Returns the values of two keys after a write, and a power failure that leaves only synced
  /// bytes.
  private func valuesAfterPowerFailure(
    _ write: Write, _ durability: Durability,
    _ end: (MorainePersistDriver) async throws -> Void = { _ in }
  ) async throws -> [Int?] {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: .stepped(clock))
    try await driver(store, .sync).create(key: "old", value: 1)
    let persist = try driver(store, durability)
    try await write(persist)
    try await end(persist)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: .stepped(clock))
    let restored = try driver(after)
    return [
      try await restored.get(key: "old", as: Int.self),
      try await restored.get(key: "new", as: Int.self),
    ]
  }

  @Test func durabilityDecidesWhatAPowerFailureTakes() async throws {
    let expected: [Write: [Int?]] = [
      .create: [1, 2], .set: [2, nil], .setWithoutALifetime: [2, nil], .remove: [nil, nil],
    ]
    for write in Write.allCases {
      #expect(try await valuesAfterPowerFailure(write, .sync) == expected[write])
      #expect(try await valuesAfterPowerFailure(write, .none) == [1, nil])
    }
  }

  @Test func shutdownMakesAllWritesDurable() async throws {
    #expect(try await valuesAfterPowerFailure(.set, .none) { try await $0.shutdown() } == [2, nil])
  }

  // MARK: Values

  @Test func aTypeWithTheSameJSONIsReturned() async throws {
    struct Old: Codable { let name: String }
    struct New: Codable { let name: String, age: Int? }
    let persist = try driver(memoryStore())
    try await persist.create(key: "a", value: Old(name: "ada"))
    let new = try #require(try await persist.get(key: "a", as: New.self))
    #expect(new.name == "ada" && new.age == nil)
    await #expect(throws: PersistError.invalidConversion) {
      try await persist.getWithTTL(key: "a", as: Int.self)
    }
  }

  @Test func aValueThatJSONCannotExpressIsAnError() async throws {
    let persist = try driver(memoryStore())
    await #expect(throws: EncodingError.self) {
      try await persist.create(key: "a", value: Double.infinity)
    }
    #expect(try await persist.get(key: "a", as: Double.self) == nil)
  }

  @Test func errorsOfTheStoreAreThrown() async throws {
    let store = memoryStore()
    let persist = try driver(store)
    let long = String(repeating: "k", count: StoreLimits.keyLengthBytes + 1)
    let tooLarge = await #expect(throws: StoreError.self) {
      try await persist.create(key: long, value: 1)
    }
    #expect(tooLarge?.code == .keyTooLarge)
    try await persist.create(key: "a", value: 1)
    try await store.close()
    let closed = await #expect(throws: StoreError.self) {
      try await persist.get(key: "a", as: Int.self)
    }
    #expect(closed?.code == .closed)
  }
}
