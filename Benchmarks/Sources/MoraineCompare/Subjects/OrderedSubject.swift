import MoraineEngine
import SystemPackage

/// Makes stores of Moraine with one ordered keyspace.
struct OrderedMaker: SubjectMaker {
  static let name = "ordered"

  var engine: Report.Engine {
    Report.Engine(
      name: Self.name, title: "Moraine, ordered", version: "this tree",
      settings: "an ordered keyspace; puts and gets are one await on the actor, ranges are read "
        + "from a snapshot")
  }

  func open(in path: String, _ options: SubjectOptions) throws -> OrderedSubject {
    var configuration = Store.Configuration()
    configuration.durability = options.sync ? .sync : .none
    let store = try Store(at: FilePath("\(path)/store"), configuration: configuration)
    return OrderedSubject(store: store, keyspace: try store.orderedKeyspace(named: "ordered"))
  }
}

struct OrderedSubject: Subject {
  static var blocks: Bool { false }

  let store: Store
  let keyspace: Keyspace

  @inline(__always)
  func put(_ key: KeyBytes, _ value: [UInt8]) async throws {
    try await keyspace.set(value, forKey: Key(key))
  }

  func remove(_ key: KeyBytes) async throws { try await keyspace.removeValue(forKey: Key(key)) }

  func put(
    _ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int
  ) async throws {
    let keyspace = keyspace
    try await store.write { batch in
      for number in numbers {
        try batch.set(
          data.value(number, generation: generation), forKey: Key(data.key(number)), in: keyspace)
      }
    }
  }

  func compact() async throws { try await store.compact() }
  func close() async throws { try await store.close() }

  func reader() -> OrderedReader { OrderedReader(keyspace: keyspace) }
}

struct OrderedReader: SubjectReader {
  let keyspace: Keyspace
  /// Taken by the first range: the first snapshot after opening checks the whole index.
  private var snapshot: Store.Snapshot?

  init(keyspace: Keyspace) { self.keyspace = keyspace }

  mutating func refresh() { snapshot = nil }

  private mutating func current() async throws -> Store.Snapshot {
    if let snapshot { return snapshot }
    let new = try await keyspace.snapshot()
    snapshot = new
    return new
  }

  @inline(__always)
  func has(_ key: KeyBytes, _ value: [UInt8]) async throws -> Bool {
    isSame(try await keyspace.value(forKey: Key(key)), value)
  }

  @inline(__always)
  func contains(_ key: KeyBytes) async throws -> Bool { try await keyspace.contains(Key(key)) }

  mutating func scan() async throws -> ScanSum {
    try await range(from: nil, limit: .max, readsValues: true)
  }

  mutating func range(
    from key: KeyBytes?, limit: Int, readsValues: Bool
  ) async throws -> ScanSum {
    let snapshot = try await current()
    var sum = ScanSum()
    var left = limit
    let range = KeyRange(from: key.map { Key($0) })
    if readsValues {
      try snapshot.scanSpans(in: range) { key, value in
        key.withUnsafeBytes { key in value.withUnsafeBytes { sum.add(key, $0) } }
        left -= 1
        return left > 0
      }
    } else {
      try snapshot.scanKeys(in: range) { key in
        key.withUnsafeBytes { sum.add(key: $0) }
        left -= 1
        return left > 0
      }
    }
    return sum
  }
}
