import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// Recovery cuts a torn segment and records the cut in the manifest. A power failure may restore
/// the bytes that were cut, but not an older manifest.
@Suite struct CutSegmentTests {
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func cutBytesThatReappearAreCutAgain(mode: Store.Configuration.IOMode) async throws {
    let configuration = Store.Configuration.testing(ioMode: mode)
    let killed = try TestDirectory()
    let store = try Store(at: killed.path, configuration: configuration)
    for number in 0..<20 { try await store.set([UInt8(number)], forKey: Key("key \(number)")) }
    let directory = try TestDirectory()
    try FileManager.default.copyItem(at: killed.store, to: directory.store)
    try await store.close()
    let segment = try #require(try directory.segments().first)
    let torn = try #require(
      try segment.recordPlaces.first { $0.key == Array("key 15".utf8) }
    ).offset
    try segment.flip(at: torn + RecordHeader.fixedLength)
    try await Store(at: directory.path, configuration: configuration).close()
    #expect(try Data(contentsOf: segment).count == torn)

    let handle = try FileHandle(forWritingTo: segment)
    try handle.seekToEnd()
    try handle.write(contentsOf: Data(repeating: 0xEE, count: 5000))
    try handle.close()
    var readOnly = configuration
    readOnly.isReadOnly = true
    let reader = try Store(at: directory.path, configuration: readOnly)
    #expect(try await reader.count() == 15)
    #expect(try await reader.verify().isSound)
    try await reader.close()
    #expect(try Data(contentsOf: segment).count == torn + 5000, "a reader changes nothing")

    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.count() == 15)
    #expect(try Data(contentsOf: segment).count == torn)
    #expect(try await again.value(forKey: "key 14") == [14])
    #expect(try await again.value(forKey: "key 15") == nil)
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}
