import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage
import Testing

/// `verify` of an open store reads again the files that opening read long ago.
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

  /// Regression: a damaged header was not found: only records were read again.
  @Test(
    arguments: [
      ("0000000001.segment", [0, 12, 50, 90, 127, 140]), ("MANIFEST", [0, 20, 90, 200]),
    ],
    [Store.Configuration.IOMode.mapped, .positional])
  func damageThatComesWhileTheStoreIsOpenIsFound(
    _ place: (file: String, offsets: [Int]), mode: Store.Configuration.IOMode
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
    // The store may have detected the replaced manifest, and close then throws.
    do throws(StoreError) { try await store.close() } catch {
      #expect(error.code == .storeReplaced)
    }
  }

  /// A mapping keeps the bytes of a file that was removed.
  @Test func missingSegmentIsReported() async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 600)
    configuration.compaction = .manual
    let first = try Store(on: memory, at: "store", configuration: configuration)
    for number in 0..<40 { try await first.set([1], forKey: Key("\(number)")) }
    try await first.close()
    let store = try Store(on: memory, at: "store", configuration: configuration)
    let missing = "0000000001.segment"
    try #require(try memory.openDirectory("store")).remove(missing)
    for _ in 0..<2 {
      let report = try await store.verify()
      #expect(report.problems.first?.code == .corrupted)
      // The segments after it are sound.
      #expect(report.problems.map(\.file) == [missing])
    }
    withExtendedLifetime(store) {}
  }

  /// A sound manifest, and a sound header, of another store.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func anotherStoresFilesAreNoticed(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let other = try TestDirectory()
    try await withStore(at: other.path) { try await $0.set([2], forKey: "a") }
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    let forgery = Forgery(directory: directory)
    for name in ["MANIFEST", "0000000001.segment"] {
      let file = directory.store.appendingPathComponent(name)
      let own = try Data(contentsOf: file)
      let foreign = try Data(contentsOf: other.store.appendingPathComponent(name))
      let length = name == "MANIFEST" ? foreign.count : SegmentHeader.fixedLength
      try forgery.overwrite(file, at: 0, [UInt8](foreign.prefix(length)))
      let report = try await store.verify()
      #expect(report.problems.map(\.code) == [.corrupted])
      #expect(report.problems.map(\.file) == [name])
      #expect(report.problems.map(\.offset) == [16])
      try forgery.overwrite(file, at: 0, [UInt8](own))
    }
    #expect(try await store.verify().isSound)
    // The store may have detected the replaced manifest, and close then throws.
    do throws(StoreError) { try await store.close() } catch {
      #expect(error.code == .storeReplaced)
    }
  }
}
