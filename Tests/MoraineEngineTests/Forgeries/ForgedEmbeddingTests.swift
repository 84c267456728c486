import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A value may even hold a record that is valid at the very place where it lies (rule 7): its
/// writer has read the segment's salt from the disk. Recovery must not search for records.
@Suite struct ForgedEmbeddingTests {
  private static let keyOfHolder = "holder"

  /// Returns the files that a killed process leaves: two records, a value with a forged record in
  /// it, one record.
  private func killedStore(mode: Store.Configuration.IOMode) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    try await store.set([1], forKey: "first")
    try await store.set([2], forKey: "second")
    let url = try #require(try directory.segments().first)
    let bytes = [UInt8](try Data(contentsOf: url))
    let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
    var end = header.headerLength
    for _ in 0..<2 { end += aligned(Int(bytes.load(UInt32.self, at: end))) }
    // The value's place: after the holder's fixed fields and its key, rounded up to a multiple of
    // 4.
    let start = end + RecordHeader.fixedLength + Self.keyOfHolder.utf8.count
    let padding = aligned(start) - start
    let image = forgedRecord(at: UInt64(aligned(start)), header.checksumSeed)
    try await store.set(
      [UInt8](repeating: 0, count: padding) + image, forKey: Key(Self.keyOfHolder))
    try await store.set([3], forKey: "last")

    // The forgery tests something only if it would be accepted at its place.
    let now = [UInt8](try Data(contentsOf: url))
    let length = Int(now.load(UInt32.self, at: aligned(start)))
    try #require(length == image.count)
    let checksum = now.withUnsafeBytes { raw in
      RecordHeader.checksum(
        of: raw.baseAddress! + aligned(start), length: length, at: UInt64(aligned(start)),
        seed: header.checksumSeed)
    }
    try #require(checksum == now.load(UInt32.self, at: aligned(start) + 4))
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  /// Returns a put of `forged` with the next number but one, 64 bytes long.
  private func forgedRecord(at offset: UInt64, _ seed: Checksum) -> [UInt8] {
    let key = [UInt8]("forged".utf8)
    let value = (0..<38).map { UInt8(truncatingIfNeeded: $0 &* 89 &+ 7) }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 8)
    defer { buffer.deallocate() }
    buffer.initializeMemory(as: UInt8.self, repeating: 0)
    key.withUnsafeBytes { key in
      value.withUnsafeBytes { value in
        RecordDraft(sequence: 4, kind: .put, key: key, stored: value)
          .write(to: buffer.baseAddress!, at: offset, seed: seed)
      }
    }
    return [UInt8](buffer)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func noDamageMakesTheEmbeddedRecordARecord(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killedStore(mode: mode)
    let segment = try #require(try directory.segments().first)
    let original = try Data(contentsOf: segment)
    let first = try #require(original.range(of: Data("first".utf8))).lowerBound
    let last = try #require(original.range(of: Data("forged".utf8))).lowerBound
    let forgery = Forgery(directory: directory)
    let files = try forgery.contents()
    // Every byte of the records before the image, and of the holder's own header, one at a time.
    for place in first - RecordHeader.fixedLength..<last - RecordHeader.fixedLength {
      var damaged = original
      damaged[place] ^= 0x5A
      try damaged.write(to: segment)
      do throws(StoreError) {
        let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
        let forged = try await store.contains("forged")
        let behind = try await store.contains("last")
        #expect(!forged, "byte \(place)")
        #expect(!behind, "byte \(place): a record after a hole")
        #expect(await store.recoveryReport.tornBytes > 0)
        try await store.close()
      } catch {
        #expect(error.code == .corrupted, "byte \(place): \(error)")
      }
      try restore(files, in: directory)
    }
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func embeddedRecordInAnUndamagedLogIsAValue(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killedStore(mode: mode)
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(try await store.count() == 4)
    #expect(try await store.value(forKey: "forged") == nil)
    #expect(try await store.value(forKey: "last") == [3])
    try await store.close()
  }

  private func restore(_ files: [String: Data], in directory: TestDirectory) throws {
    for name in try directory.names() where files[name] == nil {
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
    }
    for (name, bytes) in files {
      try bytes.write(to: directory.store.appendingPathComponent(name))
    }
  }
}
