import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import SystemPackage

/// A golden store in the making.
final class GoldenRecipe {
  private(set) var store: Store
  private let target: URL
  private let directory: TestDirectory
  private let hasCheckpoint: Bool
  private var history = GoldenHistory()
  /// The time of each entry that expires: milliseconds since 1970.
  private var expiries: [GoldenStore.Place: UInt64] = [:]

  /// Returns nil when the store already exists.
  init?(
    _ name: String, segmentSizeBytes: Int, hasCheckpoint: Bool = false
  ) async throws {
    self.hasCheckpoint = hasCheckpoint
    target = GoldenStore.root.appending(path: "v\(formatVersion)/\(name)")
    if FileManager.default.fileExists(atPath: target.path) { return nil }
    directory = try TestDirectory()
    store = try Store(
      at: directory.path, configuration: Self.configuration(hasCheckpoint, segmentSizeBytes))
  }

  private static func configuration(
    _ hasCheckpoint: Bool, _ segmentSizeBytes: Int
  ) -> Store.Configuration {
    // Nothing is preallocated in this mode.
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: .positional)
    configuration.checkpointFloorBytes = hasCheckpoint ? 0 : .max
    configuration.compaction = .manual
    return configuration
  }

  func reopen(segmentSizeBytes: Int) async throws {
    try await store.close()
    store = try Store(
      at: directory.path,
      configuration: Self.configuration(hasCheckpoint, segmentSizeBytes))
  }

  /// - Parameter expiry: milliseconds since 1970; nil for an entry that stays.
  func put(
    _ key: [UInt8], _ value: [UInt8], in keyspace: Keyspace? = nil, expiring expiry: UInt64? = nil
  ) async throws {
    let end: Expiry = expiry.map { .at(milliseconds: $0) } ?? .never
    if let keyspace {
      try await keyspace.set(value, forKey: Key(key), expiring: end)
    } else {
      try await store.set(value, forKey: Key(key), expiring: end)
    }
    history.add(key, value, in: keyspace?.name ?? "")
    expiries[GoldenStore.Place(keyspace: keyspace?.name ?? "", key: Key(key))] = expiry
  }

  func delete(_ key: [UInt8], in keyspace: Keyspace? = nil) async throws {
    let isRemoved =
      if let keyspace {
        try await keyspace.removeValue(forKey: Key(key)) != nil
      } else {
        try await store.removeValue(forKey: Key(key)) != nil
      }
    guard isRemoved else { return }
    history.add(key, nil, in: keyspace?.name ?? "")
    expiries[GoldenStore.Place(keyspace: keyspace?.name ?? "", key: Key(key))] = nil
  }

  func batch(
    _ operations: [(key: [UInt8], value: [UInt8]?)], expiring expiry: UInt64? = nil
  ) async throws {
    let end: Expiry = expiry.map { .at(milliseconds: $0) } ?? .never
    try await store.write { batch in
      for (key, value) in operations {
        if let value {
          try batch.set(value, forKey: Key(key), expiring: end)
        } else {
          try batch.removeValue(forKey: Key(key))
        }
      }
    }
    for (place, operation) in operations.enumerated() {
      history.add(operation.key, operation.value, isLast: place == operations.count - 1)
      expiries[GoldenStore.Place(key: Key(operation.key))] =
        operation.value == nil ? nil : expiry
    }
  }

  /// Writes records of every kind.
  func fill(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    try await put([], Array("the empty key".utf8))
    try await put(Array("an empty value".utf8), [])
    for round in 0..<24 {
      let key = Array("key \(random.next() % 16)".utf8)
      switch round % 4 {
      case 0: try await put(key, noise(Int(random.next() % 60), &random))
      case 1: try await put(key, Array(repeating: noise(9, &random), count: 20).flatMap { $0 })
      case 2: try await delete(key)
      default:
        let other = Array("other \(round)".utf8)
        try await put(other, noise(3, &random))
        try await batch([(key, noise(5, &random)), (other, nil), ([UInt8(round)], [])])
      }
      if round % 6 == 5 { try await store.sync() }
    }
  }

  func noise(_ count: Int, _ random: inout SeededGenerator) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next() >> 13) }
  }

  /// Closes the store in order.
  func finish() async throws {
    try await store.close()
    try await save { $0 }
  }

  /// Copies the files while the store is open, and cuts the last batch in its last record.
  func cutOffBatch() async throws {
    try await store.write { batch in
      try batch.set([1], forKey: Key([0xb0]))
      try batch.set([UInt8](0..<32), forKey: Key([0xb1]))
    }
    let last = try directory.segments().last!.lastPathComponent
    // Zeros after the cut, as in a file that was extended ahead.
    try await save(history: true) { file in
      file.name == last ? (last, file.bytes.dropLast(20) + [UInt8](repeating: 0, count: 60)) : file
    }
    try await store.close()
  }

  private typealias File = (name: String, bytes: [UInt8])

  private func save(history keepsHistory: Bool = false, _ change: (File) -> File) async throws {
    let folder = target.appending(path: "store")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    // The lock and the reserve contain nothing that is read.
    for name in try directory.names() where name != "LOCK" && name != "RESERVE" {
      let bytes = [UInt8](try Data(contentsOf: directory.store.appending(path: name)))
      try Data(change((name, bytes)).bytes).write(to: folder.appending(path: name))
    }
    for keyspace in Set(history.last.keys.map(\.keyspace)).union([""]) {
      let contents = history.last.filter { $0.key.keyspace == keyspace }
      let name = keyspace.isEmpty ? "expected.hex" : "expected.\(keyspace).hex"
      try Data(lines(contents).utf8).write(to: target.appending(path: name))
      try saveExpiries(of: contents, in: keyspace)
    }
    guard keepsHistory else { return }
    try Data(history.text.utf8).write(to: target.appending(path: "history.txt"))
  }

  private func saveExpiries(of contents: GoldenStore.Contents, in keyspace: String) throws {
    let ordered = contents.sorted { $0.value.sequence < $1.value.sequence }
    let lines = ordered.compactMap { place, record in
      expiries[place].map { "\(GoldenHex.text(record.key)) \(record.sequence) \($0)\n" }
    }
    guard !lines.isEmpty else { return }
    let name = keyspace.isEmpty ? "expiry.txt" : "expiry.\(keyspace).txt"
    try Data(lines.joined().utf8).write(to: target.appending(path: name))
  }

  private func lines(_ contents: GoldenStore.Contents) -> String {
    contents.values.sorted { $0.sequence < $1.sequence }.map { record in
      "\(GoldenHex.text(record.key)) \(record.sequence) \(GoldenHex.text(record.value))\n"
    }.joined()
  }
}
