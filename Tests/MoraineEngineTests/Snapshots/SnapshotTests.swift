import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A snapshot shows one moment, whatever happens to the store.
@Suite(.timeLimit(.minutes(10))) struct SnapshotTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private static func configuration(
    _ mode: Store.Configuration.IOMode, _ segmentSizeBytes: Int = 2000
  ) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = segmentSizeBytes
    configuration.ioMode = mode
    configuration.durability = .none
    configuration.compaction = .manual
    return configuration
  }

  private static func model(_ range: Range<Int>) -> [Key: [UInt8]] {
    Dictionary(uniqueKeysWithValues: range.map { (Key("\($0)"), [UInt8]("value \($0)".utf8)) })
  }

  private static func fill(_ store: Store, _ model: [Key: [UInt8]]) async throws {
    for (key, value) in model { try await store.set(value, forKey: key) }
  }

  @Test(arguments: modes)
  func snapshotDoesNotSeeLaterWrites(mode: Store.Configuration.IOMode) async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(mode))
    try await Self.fill(store, Self.model(0..<300))
    let snapshot = try await store.snapshot()
    for number in 0..<300 { try await store.set([1], forKey: Key("\(number)")) }
    for number in 0..<150 { try await store.removeValue(forKey: Key("\(number)")) }
    try await store.set([2], forKey: "new")
    try snapshot.check(Self.model(0..<300), absent: ["new"])
    #expect(snapshot.count == 300 && snapshot.sequence.rawValue == 300)
    _ = try await store.compact()
    try snapshot.check(Self.model(0..<300), absent: ["new"])
    try await store.snapshot().check(
      Dictionary(
        uniqueKeysWithValues: (150..<300).map { (Key("\($0)"), [1]) } + [("new", [2])]),
      absent: ["3"])
    try await store.close()
  }

  /// With thousands of buckets: every page splits and is copied.
  @Test func snapshotSurvivesGrowthOfTheIndex() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(.mapped, 64 << 20))
    let first = Self.model(0..<5_000)
    try await Self.fill(store, first)
    let small = try await store.snapshot()
    try await Self.fill(store, Self.model(5_000..<20_000))
    let large = try await store.snapshot()
    for number in 0..<20_000 { try await store.removeValue(forKey: Key("\(number)")) }
    try small.check(first, absent: ["5000", "19999"])
    try large.check(Self.model(0..<20_000))
    #expect(try await store.count() == 0)
    #expect(try await store.verify().isSound)
  }

  @Test(arguments: modes)
  func snapshotOutlivesTheStore(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    try await Self.fill(store, Self.model(0..<300))
    let snapshot = try await store.snapshot()
    try await store.close()
    try snapshot.check(Self.model(0..<300))
    await #expect(throws: StoreError.self) { try await store.snapshot() }
    // The same for an index from a checkpoint, whose pages belong to the index itself.
    let again = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    let second = try await again.snapshot()
    for number in 0..<300 { try await again.set([1], forKey: Key("\(number)")) }
    try second.check(Self.model(0..<300))
    try await again.close()
    try second.check(Self.model(0..<300))
  }

  /// Values that were compressed with the dictionary of a segment that has been removed.
  @Test(arguments: modes)
  func dictionariesAreOfTheSameMoment(mode: Store.Configuration.IOMode) async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: .dictionaries(mode))
    var model: [Key: [UInt8]] = [:]
    for (number, document) in SimilarDocuments.make(0..<3000).enumerated() {
      model[Key("\(number)")] = document
    }
    for (key, value) in model { try await store.set(value, forKey: key) }
    _ = try await store.compact()
    let snapshot = try await store.snapshot()
    for number in 0..<3000 { try await store.set([1], forKey: Key("\(number)")) }
    _ = try await store.compact()
    try snapshot.check(model, absent: ["none"])
    try await store.close()
    try snapshot.check(model)
  }

  @Test func keyspacesAreOfTheSameMoment() async throws {
    let store = Store.inMemory()
    let empty = try await store.snapshot()
    let users = try store.keyspace(named: "users")
    try await users.set([1], forKey: "a")
    try await store.set([2], forKey: "a")
    let snapshot = try await users.snapshot()
    try await users.set([3], forKey: "a")
    try await store.set([3], forKey: "a")
    try snapshot.check(["a": [1]])
    try snapshot.keyspace(named: "").check(["a": [2]])
    try snapshot.keyspace(named: "none").check([:], absent: ["a"])
    try empty.keyspace(named: "users").check([:], absent: ["a"])
    #expect(empty.count == 0 && empty.sequence == .none)
  }

  /// Repeated requests for a snapshot cost nothing.
  @Test func snapshotIsReusedUntilTheNextWrite() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "a")
    let first = try await store.snapshot()
    let second = try await store.snapshot()
    #expect(first.isSame(as: second))
    try await store.set([2], forKey: "a")
    #expect(!first.isSame(as: try await store.snapshot()))
    try first.check(["a": [1]])
  }

  /// Without a mapping a file is opened when it is read, so it must still exist.
  @Test func filesAreRemovedWithTheLastReader() async throws {
    let storage = MemoryStorage()
    let store = try Store(
      on: storage, at: "store", configuration: Self.configuration(.positional))
    try await Self.fill(store, Self.model(0..<300))
    func segmentCount() throws -> Int {
      let directory = try #require(try storage.openDirectory("store"))
      return try directory.entries().count { $0.name.hasSuffix(".segment") }
    }
    var snapshot: Store.Snapshot? = try await store.snapshot()
    for number in 0..<300 { try await store.removeValue(forKey: Key("\(number)")) }
    let before = try segmentCount()
    _ = try await store.compact()
    #expect(try segmentCount() >= before)
    try snapshot?.check(Self.model(0..<300))
    snapshot = nil
    try await store.waitUntilIdle()
    #expect(try segmentCount() <= 2)
    try await store.close()
  }

  /// Regression: the files of each moment are kept only for the snapshots of that moment. While any
  /// snapshot existed, no file was removed.
  @Test func filesAreRemovedWhileYoungerSnapshotsExist() async throws {
    let storage = MemoryStorage()
    let store = try Store(
      on: storage, at: "store", configuration: Self.configuration(.positional))
    try await Self.fill(store, Self.model(0..<300))
    var snapshots = [try await store.snapshot()]
    for round in 0..<6 {
      for number in 0..<300 { try await store.set([UInt8(round)], forKey: Key("\(number)")) }
      _ = try await store.compact()
      snapshots.append(try await store.snapshot())
      if round > 0 { snapshots.removeFirst() }
      try await store.waitUntilIdle()
      let listed = try await store.statistics().segmentCount
      let directory = try #require(try storage.openDirectory("store"))
      let files = try directory.entries().count { $0.name.hasSuffix(".segment") }
      #expect(files <= listed * (snapshots.count + 1), "round \(round)")
      guard round > 0 else { continue }
      let expected = (0..<300).map { (Key("\($0)"), [UInt8(round - 1)]) }
      try snapshots[0].check(Dictionary(uniqueKeysWithValues: expected))
    }
    snapshots = []
    try await store.close()
    let directory = try #require(try storage.openDirectory("store"))
    let files = try directory.entries().count { $0.name.hasSuffix(".segment") }
    let again = try Store(on: storage, at: "store", configuration: Self.configuration(.positional))
    #expect(try await again.statistics().segmentCount == files)
    try await again.close()
  }

  /// Damage is an error that names its place, never a missing value.
  @Test(arguments: modes)
  func damageIsNamed(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    let store = try Store(
      on: storage, at: "store", configuration: Self.configuration(mode, 1 << 20))
    // Not compressible.
    let run = [UInt8](0..<100)
    try await store.set(run, forKey: "a")
    try await store.set([1], forKey: "b")
    let snapshot = try await store.snapshot()
    let directory = try #require(try storage.openDirectory("store"))
    let file = try #require(try directory.openFile("0000000001.segment", .readWrite))
    var bytes = [UInt8](repeating: 0, count: 4096)
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    let place = try #require((0..<3996).first { Array(bytes[$0..<$0 + 100]) == run })
    _ = try [UInt8(8)].withUnsafeBytes { try file.write($0, at: UInt64(place + 50)) }
    let error = #expect(throws: StoreError.self) { try snapshot.value(forKey: "a") }
    #expect(error?.code == .corrupted && error?.file == "0000000001.segment")
    #expect(throws: StoreError.self) { try snapshot.values(forKeys: ["b", "a"]) }
    #expect(throws: StoreError.self) { try snapshot.scan { _ in true } }
    #expect(try snapshot.value(forKey: "b") == [1])
  }
}
