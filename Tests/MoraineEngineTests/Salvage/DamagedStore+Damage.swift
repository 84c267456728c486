import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

extension DamagedStore {
  var segments: [String] { originals.keys.filter { $0.hasSuffix(".segment") }.sorted() }

  func bytes(of name: String) throws -> [UInt8] {
    let directory = try #require(try storage.openDirectory(Self.path))
    let file = try #require(try directory.openFile(name, .read))
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    return bytes
  }

  /// Replaces bytes; bytes that happen to be equal do not count as damaged.
  mutating func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws {
    let original = try #require(originals[name])
    let directory = try #require(try storage.openDirectory(Self.path))
    let file = try #require(try directory.openFile(name, .readWrite))
    try bytes.withUnsafeBytes { try file.write($0, at: UInt64(offset)) }
    for (index, byte) in bytes.enumerated() where original[offset + index] != byte {
      note(name, offset + index..<offset + index + 1)
    }
  }

  mutating func cut(_ name: String, to length: Int) throws {
    let original = try #require(originals[name])
    let directory = try #require(try storage.openDirectory(Self.path))
    try directory.openFile(name, .readWrite)?.truncate(to: UInt64(length))
    note(name, length..<original.count)
  }

  mutating func remove(_ name: String) throws {
    try storage.openDirectory(Self.path)?.remove(name)
    note(name, 0..<(originals[name]?.count ?? 0))
  }

  /// Damages a segment's file in one of the ways that can occur.
  mutating func damage(_ name: String, _ random: inout SeededGenerator) throws {
    let bytes = try #require(originals[name])
    let offset = Int(random.next() % UInt64(bytes.count))
    let room = bytes.count - offset
    switch random.next() % 8 {
    case 0..<3: try overwrite(name, at: offset, with: [bytes[offset] ^ 0x10])
    case 3..<5:
      let count = min(room, 1 + Int(random.next() % 300))
      let noise = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      try overwrite(name, at: offset, with: noise)
    case 5..<7:
      let start = offset & ~511
      let count = min(bytes.count - start, 512)
      try overwrite(name, at: start, with: [UInt8](repeating: 0, count: count))
    default:
      if random.next() % 3 == 0 { try remove(name) } else { try cut(name, to: offset) }
    }
  }

  func isDamaged(_ record: Record) -> Bool {
    damage[record.file]?.contains { $0.overlaps(record.range) } ?? false
  }

  func isHeaderDamaged(_ name: String) throws -> Bool {
    let length = try #require(originals[name]).withUnsafeBytes {
      try SegmentHeader(decoding: $0).headerLength
    }
    return damage[name]?.contains { $0.lowerBound < length } ?? false
  }

  /// Returns the state of all records that are intact and in none of the named files.
  func expected(without files: Set<String> = []) -> State {
    var state: State = [:]
    for record in records where !isDamaged(record) && !files.contains(record.file) {
      state[record.place] = record.isPut ? values[record.sequence] : nil
    }
    return state
  }

  func salvage(to path: FilePath = "salvaged") async throws -> (State, SalvageReport) {
    let report = try await Store.salvage(Self.path, to: path, on: storage)
    let store = try Store(on: storage, at: path, configuration: configuration)
    var state: State = [:]
    for name in try await store.keyspaceNames() + [""] {
      try await store.keyspace(named: name).scan { entry in
        state[SalvagePlace(keyspace: name, key: entry.key)] = entry.value
        return true
      }
    }
    #expect(report.count == state.count)
    #expect(try await store.verify().isSound)
    try await store.close()
    return (state, report)
  }
}
