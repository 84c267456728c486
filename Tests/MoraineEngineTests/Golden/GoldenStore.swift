import Foundation
import MoraineEngine
import MoraineStorage
import SystemPackage
import Testing

/// A store that an earlier version wrote, kept in `Tests/Golden/v<format>/<name>`.
///
/// `store` is the directory as it was left, and `expected.hex` is the output of `moraine dump
/// --format hex`; `expected.NAME.hex` is that of the keyspace with this name. `expiry.txt` and
/// `expiry.NAME.txt` hold the key, the sequence number and the time of each entry that expires:
/// milliseconds since 1970. Where the store was left uncleanly, `history.txt` holds every operation
/// in order, which gives the contents of a shorter log.
struct GoldenStore: Sendable, CustomTestStringConvertible {
  struct Record: Equatable, Sendable {
    let key: [UInt8]
    let sequence: UInt64
    let value: [UInt8]
  }
  /// A key of a keyspace.
  struct Place: Hashable, Sendable {
    var keyspace = ""
    let key: Key
  }
  typealias Contents = [Place: Record]

  let url: URL
  var files: [String: [UInt8]]
  var expected: Contents
  /// The time of each entry that expires: milliseconds since 1970.
  let expiries: [Place: UInt64]
  let history: GoldenHistory?

  var testDescription: String { url.pathComponents.suffix(2).joined(separator: "/") }

  static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Golden")

  /// Every store of every version.
  static let all: [GoldenStore] = {
    do { return try found() } catch { fatalError("no golden stores: \(error)") }
  }()

  static func found() throws -> [GoldenStore] {
    let manager = FileManager.default
    return try manager.contentsOfDirectory(atPath: root.path).sorted().filter { $0.first == "v" }
      .flatMap { version in
        let folder = root.appending(path: version)
        return try manager.contentsOfDirectory(atPath: folder.path).sorted()
          .map { try GoldenStore(at: folder.appending(path: $0)) }
      }
  }

  init(at url: URL) throws {
    self.url = url
    let store = url.appending(path: "store")
    var files: [String: [UInt8]] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: store.path) {
      files[name] = [UInt8](try Data(contentsOf: store.appending(path: name)))
    }
    self.files = files
    expected = try Self.expected(in: url)
    expiries = try Self.expiries(in: url)
    let history = url.appending(path: "history.txt")
    self.history =
      FileManager.default.fileExists(atPath: history.path)
      ? GoldenHistory(try String(contentsOf: history, encoding: .utf8)) : nil
  }

  private static func expected(in folder: URL) throws -> Contents {
    var contents: Contents = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
      let parts = name.split(separator: ".")
      guard parts.first == "expected", parts.last == "hex" else { continue }
      let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      contents.merge(parse(text, keyspace: parts.count == 3 ? String(parts[1]) : "")) { $1 }
    }
    return contents
  }

  /// Returns a directory with a copy of the store.
  func copied() throws -> TestDirectory {
    let directory = try TestDirectory()
    try FileManager.default.copyItem(at: url.appending(path: "store"), to: directory.store)
    return directory
  }

  private static func expiries(in folder: URL) throws -> [Place: UInt64] {
    var expiries: [Place: UInt64] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
      let parts = name.split(separator: ".")
      guard parts.first == "expiry", parts.last == "txt" else { continue }
      let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      for line in text.split(separator: "\n") {
        let words = line.split(separator: " ")
        let key = Key(GoldenHex.bytes(words[0]))
        expiries[Place(keyspace: parts.count == 3 ? String(parts[1]) : "", key: key)] =
          UInt64(words[2])!
      }
    }
    return expiries
  }

  /// The lines of `moraine dump --format hex`.
  static func parse(_ text: String, keyspace: String) -> Contents {
    var contents: Contents = [:]
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      let (key, value) = (GoldenHex.bytes(words[0]), GoldenHex.bytes(words[2]))
      contents[Place(keyspace: keyspace, key: Key(key))] = Record(
        key: key, sequence: UInt64(words[1])!, value: value)
    }
    return contents
  }

  /// The files in memory.
  func storage() throws -> MemoryStorage {
    let storage = MemoryStorage()
    try storage.createDirectory("store")
    let directory = try storage.openDirectory("store")!
    for (name, bytes) in files {
      let file = try directory.createFile(name)
      try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    }
    return storage
  }
}

extension Store {
  /// Returns all records of all keyspaces.
  func goldenContents() async throws(StoreError) -> GoldenStore.Contents {
    var contents: GoldenStore.Contents = [:]
    for name in [""] + (try await keyspaceNames()) {
      let keyspace = try keyspace(named: name)
      try await keyspace.scan { entry in
        contents[GoldenStore.Place(keyspace: name, key: entry.key)] = GoldenStore.Record(
          key: entry.key.bytes, sequence: entry.sequence.rawValue, value: entry.value)
        return true
      }
    }
    return contents
  }
}

extension Store {
  /// Returns what differs from the contents when each key is read alone, and each ordered keyspace
  /// as a range; nil when nothing does.
  func goldenDifference(
    from contents: GoldenStore.Contents, keys: some Sequence<GoldenStore.Place>
  ) async throws(StoreError) -> String? {
    for place in keys {
      let value = try await keyspace(named: place.keyspace).value(forKey: place.key)
      if value != contents[place]?.value { return "\(place) has another value" }
    }
    for name in [""] + (try await keyspaceNames()) {
      let keyspace = try keyspace(named: name)
      guard try await keyspace.statistics().isOrdered else { continue }
      let expected = contents.filter { $0.key.keyspace == name }
        .sorted { $0.key.key < $1.key.key }
      for order in [KeyOrder.ascending, .descending] {
        let entries = try await keyspace.entries(order: order, limit: .max).entries
        let wanted = order == .ascending ? expected : expected.reversed()
        if entries.map(\.key) != wanted.map(\.key.key)
          || entries.map(\.value) != wanted.map(\.value.value)
        {
          return "the range of \(name) has other entries"
        }
      }
      let count = try await keyspace.count(in: .all)
      if count != expected.count { return "\(name) counts \(count) keys" }
    }
    return nil
  }
}

/// Bytes as the command prints them; `-` stands for none.
enum GoldenHex {
  static func bytes(_ text: some StringProtocol) -> [UInt8] {
    let digits = Array(text.utf8)
    return stride(from: 0, to: digits.count - 1, by: 2).map {
      UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)!
    }
  }

  static func text(_ bytes: [UInt8]) -> String {
    guard !bytes.isEmpty else { return "-" }
    return bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
