import MoraineEngine
import MoraineMaterial
import SystemPackage

/// The rows that are counted.
enum Row: String, CaseIterable {
  case nothing
  case put
  case overwrite
  case batch
  case get
  case getMissing = "get-missing"
  case getSnapshot = "get-snapshot"
  case getReader = "get-reader"
  case getMany = "get-many"
  case scan
  case scanSnapshot = "scan-snapshot"
  case scanLent = "scan-lent"
  case orderedPut = "ordered-put"
  case orderedGet = "ordered-get"
  case orderedScan = "ordered-scan"
  case orderedKeys = "ordered-keys"
  case orderedRange = "ordered-range"
  case saveIndexed = "save-indexed"
  case findIndexed = "find-indexed"
  case observedFew = "observed-1000"
  case observedMany = "observed-32000"
}

/// The work of the rows. Each row opens its own store. All rows except `put`, `batch` and those of
/// observed queries first fill it with `unit` keys.
struct Rows: Sendable {
  /// A row's count is a multiple of this.
  static let unit = 10_000
  /// Number of keys. It does not depend on the count, so that making the keys is no part of the
  /// difference.
  static let keyCount = 40_000
  static let batchCount = 100

  let store: FilePath
  let material: Material
  /// The stored keys after which at least nine others follow, in the order in which they were put.
  let rangeStarts: [Key]
  /// The bytes of the stored keys and values.
  let totalLength: Int

  init(store: FilePath) {
    self.store = store
    let material = Material(keyCount: Self.keyCount)
    self.material = material
    let stored = material.keys[..<Self.unit]
    let last = stored.sorted()[Self.unit - 10]
    rangeStarts = stored.filter { $0 <= last }
    totalLength = (0..<Self.unit).reduce(0) {
      $0 + material.keys[$1].bytes.count + material.value($1).count
    }
  }

  func run(_ row: Row, _ count: Int) async throws {
    switch row {
    case .nothing: await nothing(count)
    case .put: try await put(try open(), 0..<count)
    case .overwrite: try await overwrite(try await filled(), count)
    case .batch: try await batch(try open(), count)
    case .get: try await get(try await filled(), count)
    case .getMissing: try await getMissing(try await filled(), count)
    case .getSnapshot: try getSnapshot(try await filled().snapshot(), count)
    case .getReader: try getReader(try await filled().reader(), count)
    case .getMany: try getMany(try await filled().snapshot(), count)
    case .scan: try await scan(try await filled(), count)
    case .scanSnapshot: try scanSnapshot(try await filled().snapshot(), count)
    case .scanLent: try scanLent(try await filled().snapshot(), count)
    case .orderedPut: try await put(try open().orderedKeyspace(named: "ordered"), 0..<count)
    case .orderedGet: try await get(try await filledInOrder(), count)
    case .orderedScan: try orderedScan(try await filledInOrder().snapshot(), count)
    case .orderedKeys: try orderedKeys(try await filledInOrder().snapshot(), count)
    case .orderedRange: try orderedRange(try await filledInOrder().snapshot(), count)
    case .saveIndexed: try await saveIndexed(try open(), count)
    case .findIndexed: try await findIndexed(try open(), count)
    case .observedFew: try await observed(try open(), modelCount: 1_000, count)
    case .observedMany: try await observed(try open(), modelCount: 32_000, count)
    }
  }

  private func open() throws -> Store {
    var configuration = Store.Configuration()
    configuration.durability = .none
    // Work in the background would be counted with the row.
    configuration.compaction = .manual
    return try Store(at: store, configuration: configuration)
  }

  private func filled() async throws -> Store {
    let store = try open()
    try await put(store, 0..<Self.unit)
    return store
  }

  private func filledInOrder() async throws -> Keyspace {
    let keyspace = try open().orderedKeyspace(named: "ordered")
    try await put(keyspace, 0..<Self.unit)
    return keyspace
  }

  private func put(_ keyspace: Keyspace, _ numbers: Range<Int>) async throws {
    for number in numbers {
      try await keyspace.set(material.value(number), forKey: material.keys[number])
    }
  }

  private func nothing(_ count: Int) async {
    let nothing = EmptyActor()
    for number in 0..<count {
      await nothing.take(material.value(number), forKey: material.keys[number])
    }
  }

  private func put(_ store: Store, _ numbers: Range<Int>) async throws {
    for number in numbers {
      try await store.set(material.value(number), forKey: material.keys[number])
    }
  }

  private func overwrite(_ store: Store, _ count: Int) async throws {
    for number in 0..<count {
      try await store.set(
        material.value(number + 7), forKey: material.keys[number % Self.unit])
    }
  }

  private func batch(_ store: Store, _ count: Int) async throws {
    for start in stride(from: 0, to: count, by: Self.batchCount) {
      try await store.write { batch in
        for number in start..<start + Self.batchCount {
          try batch.set(material.value(number), forKey: material.keys[number])
        }
      }
    }
  }
}

/// An actor that does nothing: the cost of a call before a store does any work.
private actor EmptyActor {
  private var sum = 0
  func take(_ value: [UInt8], forKey key: Key) async { sum &+= key.bytes.count &+ value.count }
}
