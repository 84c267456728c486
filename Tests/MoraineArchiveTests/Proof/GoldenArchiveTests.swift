import Foundation
import MoraineArchive
import MoraineEngine
import SystemPackage
import Testing

/// Archives that earlier versions wrote. They never change: `Tests/Golden/archive-v<format>`.
///
/// `expected-<position>[.<keyspace>].hex` has the records of a state, as the command
/// `moraine dump --format hex` prints them. `Scripts/golden` reads the same archives with the
/// program and with the independent reader.
@Suite struct GoldenArchiveTests {
  private static let folder = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Golden")

  static var archives: [String] {
    get throws {
      try FileManager.default.contentsOfDirectory(atPath: folder.path)
        .filter { $0.hasPrefix("archive-v") }.sorted()
        .flatMap { version in
          try FileManager.default.contentsOfDirectory(
            atPath: folder.appending(path: version).path
          ).sorted().map { "\(version)/\($0)" }
        }
    }
  }

  @Test func archivesOfEachFormatAreRestored() async throws {
    let archives = try Self.archives
    #expect(archives.count >= 2)
    for name in archives { try await check(name) }
  }

  private func check(_ name: String) async throws {
    let golden = Self.folder.appending(path: name)
    let scratch = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: true)
    defer { _ = Result { try FileManager.default.removeItem(at: scratch) } }
    let copy = scratch.appending(path: "objects")
    try FileManager.default.copyItem(at: golden.appending(path: "objects"), to: copy)
    let archive = try await Archive.open(DirectoryObjectStore(copy.path), at: .root)
    _ = try await archive.verify(allStates: true)
    let files = try FileManager.default.contentsOfDirectory(atPath: golden.path)
      .filter { $0.hasPrefix("expected-") }.sorted()
    #expect(files.count >= 3)
    for file in files {
      let parts = file.dropFirst("expected-".count).split(separator: ".")
      let position = try #require(UInt64(parts[0]))
      let keyspace = parts.count > 2 ? String(parts[1]) : ""
      let path = scratch.appending(path: file).path
      try await archive.restore(to: FilePath(path), at: .position(position))
      let expected = try String(
        contentsOf: golden.appending(path: file), encoding: .utf8)
      let records = Set(expected.split(separator: "\n").map(String.init))
      #expect(try await lines(path, keyspace) == records, "\(name), \(file)")
    }
    let latest = try await archive.restore(to: FilePath(scratch.appending(path: "latest").path))
    #expect(latest.sequence > .none)
    // The store goes on in the archive.
    let store = try await Store.open(at: FilePath(scratch.appending(path: "latest").path))
    let writer = try await archive.attach(store)
    try await store.set([1], forKey: "later")
    #expect(try await writer.flush() == store.statistics().lastSequence)
    try await writer.detach()
    try await store.close()
  }

  /// The records of a keyspace: key, sequence number and value.
  private func lines(_ path: String, _ keyspace: String) async throws -> Set<String> {
    let store = try await Store.open(at: FilePath(path))
    let snapshot = try await store.snapshot()
    var lines: Set<String> = []
    func add(_ entry: Store.Entry) -> Bool {
      lines.insert("\(hex(entry.key.bytes)) \(entry.sequence) \(hex(entry.value))")
      return true
    }
    if keyspace.isEmpty {
      try snapshot.scan(add)
    } else {
      try snapshot.keyspace(named: keyspace).scan(add)
    }
    try await store.close()
    return lines
  }

  private func hex(_ bytes: some Collection<UInt8>) -> String {
    bytes.isEmpty ? "-" : bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
