import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import Testing

/// Old bytes after the end of the log, which a power failure, or a disk that reuses old blocks,
/// leaves.
@Suite struct RecycledBytesTests {
  private func killedStore(
    _ count: Int, _ mode: Store.Configuration.IOMode
  ) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    for number in 0..<count { try await store.set([7, 7, 7, 7], forKey: Key("key \(number)")) }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  /// The same places, the next sequence numbers, and right checksums, but of another segment.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func recordsOfAnotherSegmentAreNotReplayed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killedStore(5, mode)
    let other = try await killedStore(9, mode)
    let foreign = [UInt8](try Data(contentsOf: try #require(try other.segments().first)))
    try Forgery(directory: directory).changeSegment { bytes in
      let place = try #require(Data(bytes).range(of: Data("key 4".utf8)))
      let end = (place.upperBound + 4 + 3) & ~3
      bytes.replaceSubrange(end..., with: foreign[end...])
    }
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(try await store.count() == 5)
    #expect(await store.recoveryReport.tornBytes > 0)
    try await store.close()
  }
}
