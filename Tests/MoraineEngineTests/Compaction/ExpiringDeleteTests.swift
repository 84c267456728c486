import Foundation
import MoraineFormat
import Testing

@testable import MoraineEngine

/// A delete with an expiry, which no writer makes: it must stay as long as the record that it
/// deletes may exist, however long ago it expired.
@Suite(.timeLimit(.minutes(10))) struct ExpiringDeleteTests {
  /// Regression: rewriting its segment was always due, and took place 300 times a second.
  @Test func expiringDeleteDoesNotKeepCompactionBusy() async throws {
    let copy = try await Self.storeWithAnExpiringDelete()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .positional)
    let store = try Store(at: copy.path, configuration: configuration)
    for number in 0..<200 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    // Before the correction, the store never became idle.
    try await store.waitUntilIdle()
    #expect(try await store.value(forKey: "first") == [1])
    #expect(try await store.value(forKey: "second") == [1])
    #expect(try await store.count() == 202)
    try await store.close()
  }

  /// The second of two segments begins with a delete that expired in 1970.
  private static func storeWithAnExpiringDelete() async throws -> TestDirectory {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .positional)
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([1], forKey: "first")
    }
    let store = try Store(at: directory.path, configuration: configuration)
    try await store.set([], forKey: "12345678abcdefgh")
    try await store.set([1], forKey: "second")
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    let url = copy.store.appendingPathComponent("0000000002.segment")
    var bytes = [UInt8](try Data(contentsOf: url))
    let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
    let start = header.headerLength
    let length = Int(bytes.load(UInt32.self, at: start))
    bytes[start + 15] = 2
    bytes[start + 16] = RecordHeader.Flag.expiry
    // The first half of the key becomes the expiry.
    bytes[start + 17] = 8
    bytes.store(UInt64(1000), at: start + 20)
    let checksum = bytes.withUnsafeBytes {
      RecordHeader.checksum(
        of: $0.baseAddress! + start, length: length, at: UInt64(start), seed: header.checksumSeed)
    }
    bytes.store(checksum, at: start + 4)
    try Data(bytes).write(to: url)
    return copy
  }
}
