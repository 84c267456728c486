import Foundation
import MoraineEngine
import Testing

/// `verify` of an open store reads again what opening read long ago.
@Suite struct VerificationTests {
  private func damage(_ name: String, at offset: Int, in directory: TestDirectory) throws {
    let url = directory.store.appendingPathComponent(name)
    let handle = try FileHandle(forUpdating: url)
    try handle.seek(toOffset: UInt64(offset))
    let byte = try #require(try handle.read(upToCount: 1)?.first)
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: [byte ^ 0x5A])
    try handle.close()
  }

  /// A damaged header passed: only records were read again.
  @Test(
    arguments: [
      ("0000000001.segment", [0, 12, 50, 90, 127, 140]), ("MANIFEST", [0, 20, 90, 200]),
    ],
    [Configuration.IOMode.mapped, .positional])
  func damageThatComesWhileTheStoreIsOpenIsFound(
    _ place: (file: String, offsets: [Int]), mode: Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { store in
      for number in 0..<10 { try await store.set([1], forKey: Key("\(number)")) }
    }
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(try await store.verify().isSound)
    for offset in place.offsets {
      try damage(place.file, at: offset, in: directory)
      let report = try await store.verify()
      #expect(report.problems.map(\.file) == [place.file], "byte \(offset)")
      try damage(place.file, at: offset, in: directory)
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
