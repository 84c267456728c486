import Foundation
import MoraineEngine
import Testing

/// Another program shortens or removes a segment's file while the store is open.
@Suite struct VanishedBytesTests {
  private static let value = [UInt8](0..<90)

  private func store(_ directory: TestDirectory) async throws -> (Store, URL) {
    var configuration = Store.Configuration.testing(ioMode: .positional)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<40 { try await store.set(Self.value, forKey: Key("\(number)")) }
    }
    let store = try Store(at: directory.path, configuration: configuration)
    return (store, try #require(try directory.segments().first))
  }

  private func truncate(_ file: URL, to length: Int) throws {
    let handle = try FileHandle(forWritingTo: file)
    try handle.truncate(atOffset: UInt64(length))
    try handle.close()
  }

  @Test func missingSegmentIsAnErrorUntilTheFileReturns() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 256, ioMode: .positional)
    // More segments than files are kept open; each file is read when the store is opened.
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<240 { try await store.set(Self.value, forKey: Key("\(number)")) }
    }
    let store = try Store(at: directory.path, configuration: configuration)
    let segment = try #require(
      try directory.segments().first { try $0.recordPlaces.contains { $0.key == Array("7".utf8) } })
    let elsewhere = directory.url.appendingPathComponent("elsewhere")
    try FileManager.default.moveItem(at: segment, to: elsewhere)
    let error = await #expect(throws: StoreError.self) { try await store.value(forKey: "7") }
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(try await store.value(forKey: "nobody's") == nil)
    try FileManager.default.moveItem(at: elsewhere, to: segment)
    #expect(try await store.value(forKey: "7") == Self.value)
    try await store.close()
  }

  @Test func truncationIsAnErrorOnlyForTheTruncatedKeys() async throws {
    let directory = try TestDirectory()
    let (store, segment) = try await store(directory)
    let bytes = try Data(contentsOf: segment)
    let last = try #require(try segment.recordPlaces.first { $0.key == Array("39".utf8) })
    try truncate(segment, to: last.offset + 30)
    let error = await #expect(throws: StoreError.self) { try await store.value(forKey: "39") }
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(error?.offset == UInt64(last.offset))
    #expect(try await store.value(forKey: "3") == Self.value)
    #expect(try await !store.verify().isSound)
    try Forgery(directory: directory).overwrite(segment, at: 0, [UInt8](bytes))
    #expect(try await store.value(forKey: "39") == Self.value)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func compactionOfATruncatedSegmentFails() async throws {
    let directory = try TestDirectory()
    let (store, segment) = try await store(directory)
    try await store.removeValue(forKey: "1")
    let bytes = try Data(contentsOf: segment)
    try truncate(segment, to: bytes.count / 2)
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(error?.offset == UInt64(bytes.count / 2))
    #expect(store.poison == nil)
    #expect(try await store.count() == 39)
    try Forgery(directory: directory).overwrite(segment, at: 0, [UInt8](bytes))
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path, configuration: .testing(ioMode: .positional))
    #expect(try await again.count() == 39)
    try await again.compact()
    #expect(try await again.value(forKey: "39") == Self.value)
    try await again.close()
  }
}
