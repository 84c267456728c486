import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// The expiry of a record is reserved: version 1 writers set none. Reads return a record whose
/// expiry has passed, so compaction keeps it.
@Suite struct ExpiryTests {
  /// Returns the files that a killed process leaves: one record whose first eight bytes after the
  /// header become its expiry, and one record without an expiry.
  private func store(expiring milliseconds: UInt64) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(ioMode: .positional))
    try await store.set([UInt8](0..<30), forKey: "12345678")
    try await store.set([1], forKey: "stays")
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    try Forgery(directory: copy).changeFirstRecord { record in
      record[16] = RecordHeader.Flag.expiry
      record.store(milliseconds, at: RecordHeader.fixedLength)
    }
    return copy
  }

  private let keyBehindTheExpiry = Key([UInt8](0..<8))

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func compactionKeepsARecordWhoseExpiryHasPassed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(expiring: 1000)
    let configuration = Store.Configuration.testing(ioMode: mode)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.count() == 2)
    let value = try await store.value(forKey: keyBehindTheExpiry)
    #expect(value?.count == 22)
    // Makes garbage, so that the record's segment is rewritten.
    try await store.removeValue(forKey: "stays")
    let before = try await store.lastSequence()
    #expect(try await store.compact().inputSegmentCount > 0)
    #expect(try await store.value(forKey: keyBehindTheExpiry) == value)
    #expect(try await store.lastSequence() == before, "compaction deletes nothing")
    #expect(try await store.compact().inputSegmentCount == 0, "nothing is left to compact")
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.count() == 1)
    try await again.close()
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func recordThatHasNotExpiredKeepsItsExpiry(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(expiring: .max - 1)
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    // Makes garbage, so that the record's segment is rewritten.
    try await store.removeValue(forKey: "stays")
    #expect(try await store.compact().inputSegmentCount > 0)
    #expect(try await store.value(forKey: keyBehindTheExpiry)?.count == 22)
    try await store.close()
    let bytes = try Data(contentsOf: try #require(try directory.segments().first))
    #expect(bytes[128 + 16] == RecordHeader.Flag.expiry)
    #expect(bytes[148..<156].elementsEqual([0xFE] + [UInt8](repeating: 0xFF, count: 7)))
  }
}
