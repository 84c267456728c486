import Foundation
import MoraineEngine
import MoraineStorage
import SystemPackage
import Testing

/// A store that an earlier version wrote, kept in `Tests/Golden/v<format>/<name>`.
///
/// `store` is the directory as it was left, and `expected.hex` is the output of `moraine dump
/// --format hex`. Where the store was left uncleanly, `history.txt` holds every operation in order,
/// which gives the contents of a shorter log.
struct GoldenStore: Sendable, CustomTestStringConvertible {
  struct Record: Equatable, Sendable {
    let key: [UInt8]
    let sequence: UInt64
    let value: [UInt8]
  }
  typealias Contents = [Key: Record]

  let url: URL
  var files: [String: [UInt8]]
  var expected: Contents
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
    expected = try Self.parse(
      String(contentsOf: url.appending(path: "expected.hex"), encoding: .utf8))
    let history = url.appending(path: "history.txt")
    self.history =
      FileManager.default.fileExists(atPath: history.path)
      ? GoldenHistory(try String(contentsOf: history, encoding: .utf8)) : nil
  }

  /// The lines of `moraine dump --format hex`.
  static func parse(_ text: String) throws -> Contents {
    var contents: Contents = [:]
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      let (key, value) = (GoldenHex.bytes(words[0]), GoldenHex.bytes(words[2]))
      contents[Key(key)] = Record(key: key, sequence: UInt64(words[1])!, value: value)
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
  /// Returns all records of the store.
  func goldenContents() async throws(StoreError) -> GoldenStore.Contents {
    var contents: GoldenStore.Contents = [:]
    do {
      try await scan { entry in
        contents[entry.key] = GoldenStore.Record(
          key: entry.key.bytes, sequence: entry.sequence.rawValue, value: entry.value)
        return true
      }
    } catch let error {
      guard let known = error as? StoreError else { fatalError("not a store's error: \(error)") }
      throw known
    }
    return contents
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
