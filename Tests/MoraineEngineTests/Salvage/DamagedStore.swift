import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A store with a history, the records of its files, and methods to damage them.
struct DamagedStore {
  typealias State = [SalvagePlace: [UInt8]]

  /// A put or a delete in a file, as it was before the damage.
  struct Record {
    let file: String
    let range: Range<Int>
    let sequence: UInt64
    let place: SalvagePlace
    let isPut: Bool
  }

  static let path: FilePath = "store"
  static let names = ["", "people", "places"]

  let storage: any Storage
  let configuration: Store.Configuration
  /// The value of each sequence number.
  private(set) var values: [UInt64: [UInt8]] = [:]
  private(set) var damage: [String: [Range<Int>]] = [:]
  private(set) var originals: [String: [UInt8]] = [:]
  private(set) var records: [Record] = []

  init(
    _ storage: any Storage = MemoryStorage(), segmentSizeBytes: Int = 2000,
    mode: Store.Configuration.IOMode = .mapped
  ) {
    self.storage = storage
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: mode)
    configuration.compaction = .manual
    self.configuration = configuration
  }

  /// Writes puts, deletes, batches and compactions, and closes the store in order.
  mutating func write(_ random: inout SeededGenerator, operations: Int = 150) async throws {
    let store = try Store(on: storage, at: Self.path, configuration: configuration)
    for number in 0..<operations {
      switch random.next() % 12 {
      case 0..<7: try await put(&random, store, number)
      case 7..<9:
        let place = place(&random)
        try await store.keyspace(named: place.keyspace).removeValue(forKey: place.key)
      case 9..<11: try await batch(&random, store, number)
      default:
        if random.next() % 4 == 0 {
          let start = Int(random.next() % 6)
          try await store.compact(segments: start..<start + 1 + Int(random.next() % 4))
        }
      }
    }
    try await store.close()
    try read()
  }

  private func place(_ random: inout SeededGenerator) -> SalvagePlace {
    let number = Int(random.next() % 45)
    return SalvagePlace(keyspace: Self.names[number % 3], key: Key("key \(number / 3)"))
  }

  /// Half of the values compress.
  private func value(_ random: inout SeededGenerator, _ number: Int) -> [UInt8] {
    let count = Int(random.next() % 90)
    if random.next() % 2 == 0 { return [UInt8](repeating: UInt8(number % 251), count: count) }
    return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  private mutating func put(
    _ random: inout SeededGenerator, _ store: Store, _ number: Int
  ) async throws {
    let (place, value) = (place(&random), value(&random, number))
    let keyspace = try store.keyspace(named: place.keyspace)
    values[try await keyspace.set(value, forKey: place.key).rawValue] = value
  }

  private mutating func batch(
    _ random: inout SeededGenerator, _ store: Store, _ number: Int
  ) async throws {
    let parts = (0..<2 + Int(random.next() % 4)).map { _ in
      (place(&random), value(&random, number))
    }
    try await store.write { batch in
      for (place, value) in parts {
        try batch.set(
          value, forKey: place.key, in: try store.keyspace(named: place.keyspace))
      }
    }
    let last = try await store.statistics().lastSequence.rawValue
    for (index, part) in parts.enumerated() {
      values[last - UInt64(parts.count - 1 - index)] = part.1
    }
  }

  mutating func note(_ name: String, _ range: Range<Int>) {
    if !range.isEmpty { damage[name, default: []].append(range) }
  }

  /// Records the present files as the undamaged originals.
  mutating func read() throws {
    let directory = try #require(try storage.openDirectory(Self.path))
    let entries = try directory.entries().filter { $0.name != "LOCK" }
    let manifest = try #require(entries.first { $0.name == Manifest.fileName })
    let bytes = try bytes(of: manifest.name)
    let keyspaces = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }.keyspaces
    let names = Dictionary(uniqueKeysWithValues: keyspaces.map { ($0.id, $0.name) })
    records = []
    for entry in entries {
      originals[entry.name] = try self.bytes(of: entry.name)
      guard entry.name.hasSuffix(".segment") else { continue }
      try read(entry.name, names)
    }
    records.sort { $0.sequence < $1.sequence }
  }

  private mutating func read(_ name: String, _ names: [UInt16: String]) throws {
    let bytes = try #require(originals[name])
    try bytes.withUnsafeBytes { raw in
      var place = try SegmentHeader(decoding: raw).headerLength
      while place + RecordHeader.fixedLength <= raw.count {
        let base = raw.baseAddress! + place
        let length = RecordHeader.length(at: base)
        guard length > 0, let header = RecordHeader.parse(base, length: length) else { break }
        if header.kind == .put || header.kind == .delete {
          let key = Key([UInt8](raw[(place + header.keyOffset)..<(place + header.valueOffset)]))
          records.append(
            Record(
              file: name, range: place..<(place + length), sequence: header.sequence,
              place: SalvagePlace(keyspace: names[header.keyspace] ?? "", key: key),
              isPut: header.kind == .put))
        }
        place += aligned(length)
      }
    }
  }
}

struct SalvagePlace: Hashable {
  let keyspace: String
  let key: Key
}
