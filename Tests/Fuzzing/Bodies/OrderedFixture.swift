import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// A sound store with ordered and hashed keyspaces, kept in `Tests/Fuzzing/OrderedFixture`: its
/// first segments are in the order of keys, its index checkpoint has trees of up to three levels,
/// and its log goes on after the checkpoint.
package enum OrderedFixture {
  /// The ordered keyspaces. The tree of `tall` has two levels of branches, because its separators
  /// are long; that of `users` has one. `few` has one leaf, and `none` has no entry.
  static let ordered = ["few", "none", "tall", "users"]
  static let hashed = ["", "hashed"]

  private static let loaded = Result {
    let files = try StoreFiles(inFolder: "OrderedFixture")
    try require(files.checkpointName != nil, "the fixture has no checkpoint")
    return files
  }

  static func files() throws -> StoreFiles { try loaded.get() }

  private static let contents = FixtureContents()

  /// The contents of the fixture, read without its checkpoint.
  static func model() async throws -> OrderedModel { try await contents.model() }

  /// All values that the log has of each key.
  static let written = Result { try WrittenValues(in: files()) }

  // MARK: Making

  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration.fuzzing(.mapped)
    configuration.segmentSizeBytes = 16 << 10
    configuration.checkpointFloorBytes = 0
    return configuration
  }

  /// Makes a new fixture.
  package static func make() async throws -> StoreFiles {
    let storage = MemoryStorage()
    var store = try Store(on: storage, at: "store", configuration: configuration)
    try await fillTall(try store.orderedKeyspace(named: "tall"))
    try await fillOthers(store)
    _ = try await store.compact()
    try await store.close()
    // The checkpoint of this moment stays.
    var later = configuration
    later.checkpointFloorBytes = .max
    store = try Store(on: storage, at: "store", configuration: later)
    try await changeSome(store)
    try await store.close()
    var files = try StoreFiles(of: storage)
    files["LOCK"] = nil
    files["RESERVE"] = nil
    let trees = try TreeEdits(of: files).header.trees
    try require(trees.map(\.height).max() == 2, "no tree has two levels of branches")
    try require(trees.contains { $0.height == 1 }, "no tree has one level of branches")
    return files
  }

  /// Writes long keys, so that separators become long, then short keys to the same leaves, and
  /// removes most of the long keys.
  private static func fillTall(_ keyspace: Keyspace) async throws {
    func long(_ group: UInt8, _ number: Int) -> Key {
      Key([group] + [UInt8](repeating: 250 - group, count: 440) + Array("\(1000 + number)".utf8))
    }
    let groups = UInt8(0)..<12
    func removeLong(where isGone: (Int) -> Bool) async throws {
      for group in groups {
        for number in 0..<330 where isGone(number) {
          try await keyspace.removeValue(forKey: long(group, number))
        }
      }
    }
    for group in groups {
      for number in 0..<330 { try await keyspace.set([1], forKey: long(group, number)) }
    }
    // Leaves with a quarter of their entries are not merged.
    try await removeLong { $0 % 3 != 2 }
    for group in groups {
      for number in UInt8(0)..<112 {
        try await keyspace.set([group, number], forKey: [group, number])
      }
    }
    try await removeLong { $0 % 3 == 2 && $0 != 5 && $0 != 200 }
  }

  private static func fillOthers(_ store: Store) async throws {
    let users = try store.orderedKeyspace(named: "users")
    // In an order that splits leaves in their middle.
    for step in 0..<420 {
      let number = step * 191 % 420
      try await users.set(
        [UInt8(number & 255), 1], forKey: user(number / 20, number % 20))
    }
    let few = try store.orderedKeyspace(named: "few")
    let keys: [Key] = [[], [0], [0, 0], [1], [1, 0], [1, 0, 0], [1, 2, 3, 4, 5], [255]]
    // Two keys with equal heads and no third one.
    let tied = ["a1", "b2"].map { Key(String(repeating: "x", count: 60) + $0) }
    for key in keys + tied { try await few.set(key.bytes.suffix(5) + [3], forKey: key) }
    let none = try store.orderedKeyspace(named: "none")
    try await none.set([1], forKey: "gone")
    try await none.removeValue(forKey: "gone")
    let hashed = try store.keyspace(named: "hashed")
    for number in 0..<24 {
      try await store.set([UInt8(number)], forKey: Key("key \(number)"))
      // The same keys as in an ordered keyspace.
      try await hashed.set([UInt8(number), 9], forKey: user(number, 3))
    }
  }

  private static func user(_ user: Int, _ item: Int) -> Key {
    Key("app/user/\(1000 + user)/item/\(100 + item)")
  }

  private static func changeSome(_ store: Store) async throws {
    let (users, tall, few) = (
      try store.orderedKeyspace(named: "users"), try store.orderedKeyspace(named: "tall"),
      try store.orderedKeyspace(named: "few")
    )
    for number in 0..<12 {
      try await users.set([UInt8(number), 2], forKey: user(number, 7))
      try await users.removeValue(forKey: user(number, 11))
      try await tall.set([UInt8(number), 2], forKey: [UInt8(number), 60])
      try await tall.set([2, 2, 2], forKey: [UInt8(number), 60, 0])
    }
    try await few.removeValue(forKey: [1, 0])
    try await store.write { batch in
      try batch.set([4], forKey: "new", in: few)
      try batch.set([5], forKey: user(30, 1), in: users)
      try batch.set([6], forKey: "key 3")
      try batch.removeValue(forKey: "key 4")
    }
  }
}

private actor FixtureContents {
  private var found: OrderedModel?

  func model() async throws -> OrderedModel {
    if let found { return found }
    var files = try OrderedFixture.files()
    files.removeCheckpoints()
    let store = try Store(on: try files.storage(), at: "store", configuration: .fuzzing(.mapped))
    let result = try await OrderedModel(of: store)
    try await store.close()
    found = result
    return result
  }
}

/// The values that a log has of each key, whichever of them is live.
struct WrittenValues {
  private var values: [String: [Key: [[UInt8]]]] = [:]

  init() {}

  /// The fixture has no compressed values.
  init(in files: StoreFiles) throws {
    let manifest = try files.manifest()
    var names = Dictionary(uniqueKeysWithValues: manifest.keyspaces.map { ($0.id, $0.name) })
    names[0] = ""
    for name in files.segmentNames {
      try SegmentBytes(files[name] ?? []).forEachRecord { _, record, base in
        try require(record.codec == .raw, "the fixture has a compressed value")
        guard record.kind == .put, let keyspace = names[record.keyspace] else { return }
        let key = UnsafeRawBufferPointer(start: base + record.keyOffset, count: record.keyLength)
        let value = UnsafeRawBufferPointer(
          start: base + record.valueOffset, count: record.storedLength)
        add(Array(value), Key(Array(key)), in: keyspace)
      }
    }
  }

  mutating func add(_ value: [UInt8], _ key: Key, in keyspace: String) {
    values[keyspace, default: [:]][key, default: []].append(value)
  }

  func contains(_ value: [UInt8], _ key: Key, in keyspace: String) -> Bool {
    values[keyspace]?[key]?.contains(value) ?? false
  }
}
