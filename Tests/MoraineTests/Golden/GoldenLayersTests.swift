import Foundation
import Moraine
import MoraineEngine
import SystemPackage
import Testing

/// A store that an earlier version wrote with indexes, models that expire, and a large value. It is
/// kept in `Tests/Golden/layers-v1/store`. `Scripts/golden` compares `keyspaces.txt` beside it with
/// what the command and the independent reader read.
@Suite(.timeLimit(.minutes(10))) struct GoldenLayersTests {
  struct Guest: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var email: String?
    var age: Int
  }

  static let isMade = ProcessInfo.processInfo.environment["MORAINE_MAKE_GOLDEN"] != nil
  static let golden = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Golden/layers-v1/store")
  /// 2100-01-01, in milliseconds since 1970.
  static let year2100: UInt64 = 4_102_444_800_000
  /// The value of two pieces.
  static let film = (0..<LargeValues.pieceBytes + 4000).map { UInt8(truncatingIfNeeded: $0 / 700) }
  static let guests = (1...8).map { id in
    Guest(id: id, email: id == 4 ? nil : "guest\(id)@example.org", age: 20 + id % 3)
  }

  /// Returns the time at which a guest expires.
  static func expiry(of guest: Guest) -> Expiry {
    guest.id % 2 == 0 ? .at(milliseconds: year2100 + UInt64(guest.id)) : .never
  }

  private func repository(in store: Store) throws -> LocalRepository<Guest> {
    try LocalRepository(
      in: store, named: "guests",
      indexes: [.unique("email", on: \.email), .index("age", on: \.age)])
  }

  private func withFolder(_ body: (URL) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory
      .appending(path: "moraine-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(folder))
    } catch {
      result = .failure(error)
    }
    try FileManager.default.removeItem(at: folder)
    try result.get()
  }

  /// Makes the store: `Scripts/golden --make`. An existing store is not changed. `keyspaces.txt` is
  /// written by hand.
  @Test(.enabled(if: isMade)) func layersGoldenMaker() async throws {
    guard !FileManager.default.fileExists(atPath: Self.golden.path) else { return }
    try await withFolder { folder in
      var configuration = Store.Configuration()
      // Nothing is preallocated in this mode.
      configuration.ioMode = .positional
      let made = folder.appending(path: "store")
      try await withStore(at: FilePath(made.path), configuration: configuration) { store in
        let guests = try self.repository(in: store)
        try await guests.save(Guest(id: 8, email: "before@example.org", age: 70))
        try await guests.save(Guest(id: 9, email: "guest9@example.org", age: 21))
        for guest in Self.guests {
          try await guests.save(guest, expiring: Self.expiry(of: guest))
        }
        try await guests.delete(9)
        let film = AsyncStream<[UInt8]> { parts in
          parts.yield(Self.film)
          parts.finish()
        }
        try await store.largeValues(named: "films").set(film, forKey: "film")
      }
      try FileManager.default.createDirectory(
        at: Self.golden, withIntermediateDirectories: true)
      // The lock and the reserve contain nothing that is read.
      for name in try FileManager.default.contentsOfDirectory(atPath: made.path)
      where name != "LOCK" && name != "RESERVE" {
        try FileManager.default.copyItem(
          at: made.appending(path: name), to: Self.golden.appending(path: name))
      }
    }
  }

  /// Regression: no golden store had an index, a row with an expiry, or a large value, so that no
  /// test would have shown that a later version reads something else from them.
  @Test func indexesRowsAndLargeValuesOfVersion1AreReadAsTheyWereWritten() async throws {
    try await withFolder { folder in
      let copy = folder.appending(path: "store")
      try FileManager.default.copyItem(at: Self.golden, to: copy)
      try await withStore(at: FilePath(copy.path)) { store in
        let guests = try self.repository(in: store)
        #expect(try await guests.loadAll().sorted { $0.id < $1.id } == Self.guests)
        #expect(try await guests.indexStatus().allSatisfy(\.isReady))
        try await self.checkRows(in: store)
        #expect(try await guests.find(\.email, "guest2@example.org")?.id == 2)
        #expect(try await guests.find(\.email, "before@example.org") == nil)
        #expect(try await guests.find(\.email, "guest9@example.org") == nil)
        let found = try await guests.query(where: \.age, is: 21).requiringIndex().fetch()
        #expect(found.map(\.id).sorted() == [1, 4, 7])
        let film = try #require(try await store.largeValues(named: "films").value(forKey: "film"))
        var bytes: [UInt8] = []
        for try await piece in film { bytes += piece }
        #expect(bytes == Self.film)
        let report = try await store.verify()
        #expect(report.isSound, "\(report.problems)")
        let error = await #expect(throws: StoreError.self) {
          try await guests.save(Guest(id: 10, email: "guest2@example.org", age: 1))
        }
        #expect(error?.code == .notUnique)
        // The old entries are found in the row, and are removed.
        for guest in Self.guests { try await guests.delete(guest.id) }
        let system = try store.orderedKeyspace(named: "moraine.index/guests")
        #expect(try await system.keys(in: .all, limit: 9) == [IndexLayout.catalogKey])
      }
    }
  }

  /// Each row and its record have the expiry of the model, and the bytes of FileFormat.md.
  private func checkRows(in store: Store) async throws {
    let models = try store.keyspace(named: "guests")
    let system = try store.orderedKeyspace(named: "moraine.index/guests")
    for guest in Self.guests {
      let key = Key("\(guest.id)")
      let rowKey = IndexLayout.rowKey(of: key)
      let expiry = Self.expiry(of: guest)
      #expect(try await models.expiry(forKey: key) == expiry)
      #expect(try await system.expiry(forKey: rowKey) == expiry)
      let bytes = try #require(try await system.value(forKey: rowKey))
      #expect(try StoredIndexRow(bytes, of: key).expiry == expiry.milliseconds ?? 0)
      // Version, expiry, count of indexes; 2100-01-01 is 00 d8 c3 2c bb 03.
      let time: [UInt8] =
        guest.id % 2 == 0
        ? [UInt8(guest.id), 0xD8, 0xC3, 0x2C, 0xBB, 0x03, 0, 0] : [0, 0, 0, 0, 0, 0, 0, 0]
      #expect(Array(bytes.prefix(11)) == [1] + time + [2, 0])
    }
  }
}
