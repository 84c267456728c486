import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A value may hold the image of a record; recovery never takes it for one (rule 7).
@Suite struct EmbeddedRecordTests {
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aRecordInAValueIsNeverResynchronizedInto(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(ioMode: mode)
    let store = try Store(at: directory.path, configuration: configuration)
    let noise = (0..<40).map { UInt8(truncatingIfNeeded: $0 &* 97 &+ 13) }
    try await store.set(noise, forKey: "embedded")
    try await store.sync()
    try await store.set(noise, forKey: "second")
    // A byte-for-byte copy of a record, and of the sync mark after it, as a value.
    let url = try #require(try directory.segments().first)
    let bytes = [UInt8](try Data(contentsOf: url))
    let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
    let image = Array(bytes[header.headerLength...].prefix(160))
    try await store.set(image, forKey: "holder")
    try await store.set([1], forKey: "behind")
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()

    // Damage after the promised bytes, before the value that holds the image.
    let segment = try #require(try copy.segments().first)
    var damaged = [UInt8](try Data(contentsOf: segment))
    let place = try #require(Data(damaged).range(of: Data("second".utf8)))
    damaged[place.lowerBound] ^= 0xFF
    try Data(damaged).write(to: segment)
    let again = try Store(at: copy.path, configuration: configuration)
    #expect(try await again.count() == 1)
    #expect(try await again.value(forKey: "embedded") == noise)
    #expect(try await again.value(forKey: "holder") == nil)
    #expect(await again.recoveryReport.tornBytes > 160)
    try await again.close()
  }

  /// The same image at its own place, but in another segment.
  @Test func aRecordFromAnotherSegmentDoesNotParse() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 400)
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<12 { try await store.set([UInt8](0..<60), forKey: "\(number)") }
    try await store.close()
    let segments = try directory.segments()
    try #require(segments.count > 2)
    var second = [UInt8](try Data(contentsOf: segments[1]))
    let first = [UInt8](try Data(contentsOf: segments[0]))
    second.replaceSubrange(128..., with: first[128..<min(first.count, second.count)])
    try Data(second).write(to: segments[1])
    do throws(StoreError) {
      _ = try Store(at: directory.path, configuration: configuration)
      Issue.record("took another segment's records")
    } catch {
      #expect(error.code == .corrupted)
      #expect(error.file == segments[1].lastPathComponent)
    }
  }
}
