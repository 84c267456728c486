import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Files in the wrong place, of another time, or of another store: their headers identify them, and
/// missing records are named.
@Suite struct SalvageMixUpTests {
  private func damaged(_ seed: UInt64 = 1, operations: Int = 150) async throws -> DamagedStore {
    var random = SeededGenerator(seed: seed)
    var damaged = DamagedStore()
    try await damaged.write(&random, operations: operations)
    return damaged
  }

  private func copy(_ name: String, over other: String, in damaged: DamagedStore) throws {
    let directory = try #require(try damaged.storage.openDirectory(DamagedStore.path))
    try directory.remove(other)
    let file = try directory.createFile(other)
    try damaged.originals[name]!.withUnsafeBytes { try file.write($0, at: 0) }
  }

  @Test func swappedFilesAreRecoveredCompletely() async throws {
    let damaged = try await damaged()
    let (first, last) = (damaged.segments.first!, damaged.segments.last!)
    #expect(first != last)
    try copy(first, over: last, in: damaged)
    try copy(last, over: first, in: damaged)
    let (state, report) = try await damaged.salvage()
    #expect(state == damaged.expected() && report.isComplete)
  }

  @Test func copyInTheWrongPlaceIsNotCountedTwice() async throws {
    var damaged = try await damaged()
    let names = damaged.segments
    try copy(names[0], over: names[2], in: damaged)
    damaged.note(names[2], 0..<damaged.originals[names[2]]!.count)
    let (state, report) = try await damaged.salvage()
    #expect(state == damaged.expected())
    let count = damaged.records.count { $0.file == names[2] }
    #expect(report.losses.map(\.kind) == [.segment])
    #expect(report.losses.first?.recordCount == UInt64(count))
    #expect(report.ignoredFiles == [names[2]])
  }

  /// With damaged headers too, the numbers of the operations show that it is another file.
  @Test func fileWithoutHeaderInTheWrongPlaceIsNotUsed() async throws {
    var damaged = try await damaged()
    let names = damaged.segments
    try copy(names[0], over: names[2], in: damaged)
    damaged.note(names[2], 0..<damaged.originals[names[2]]!.count)
    let directory = try #require(try damaged.storage.openDirectory(DamagedStore.path))
    let file = try #require(try directory.openFile(names[2], .readWrite))
    try [UInt8](repeating: 0, count: 128).withUnsafeBytes { try file.write($0, at: 0) }
    let (state, report) = try await damaged.salvage()
    #expect(state == damaged.expected())
    #expect(report.losses.map(\.file) == [names[2]])
  }

  @Test func manifestThatIsTooOldIsIgnored() async throws {
    var damaged = try await damaged()
    let old = damaged.originals[Manifest.fileName]!
    var random = SeededGenerator(seed: 2)
    try await damaged.write(&random)
    let directory = try #require(try damaged.storage.openDirectory(DamagedStore.path))
    try directory.remove(Manifest.fileName)
    let file = try directory.createFile(Manifest.fileName)
    try old.withUnsafeBytes { try file.write($0, at: 0) }
    let (state, report) = try await damaged.salvage()
    #expect(report.losses.map(\.kind) == [.manifest])
    let expected = damaged.expected()
    #expect(expected.allSatisfy { state[$0.key] == $0.value })
  }

  @Test func manifestOfAnotherStoreIsIgnored() async throws {
    let (damaged, other) = (try await damaged(), try await self.damaged(3))
    let directory = try #require(try damaged.storage.openDirectory(DamagedStore.path))
    try directory.remove(Manifest.fileName)
    let file = try directory.createFile(Manifest.fileName)
    try other.originals[Manifest.fileName]!.withUnsafeBytes { try file.write($0, at: 0) }
    let (state, report) = try await damaged.salvage()
    #expect(report.losses.map(\.kind) == [.manifest])
    #expect(report.losses[0].reason.contains("another store"))
    #expect(state.count == damaged.expected().count)
  }

  /// Header, first record and footer: the records in between confirm the contents of the header.
  @Test func headerAndFooterMayBothBeDamaged() async throws {
    var damaged = try await damaged()
    let name = damaged.segments[1]
    try damaged.overwrite(name, at: 0, with: [UInt8](repeating: 0, count: 140))
    let footer = damaged.originals[name]!.count - 84
    try damaged.overwrite(name, at: footer + 4, with: [damaged.originals[name]![footer + 4] ^ 1])
    let (state, report) = try await damaged.salvage()
    #expect(state == damaged.expected() && report.segmentsWithoutHeader == [name])
  }

  /// Records with a seed of their own inside a value are not taken for records, though the header
  /// and the beginning of the record that holds the value are lost.
  @Test(arguments: [true, false])
  func recordsInsideAValueAreNotRecovered(hasManifest: Bool) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4096)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "first")
    try await store.set(Self.deceptive(at: 128 + 20 + 4), forKey: "user")
    try await store.close()
    let directory = try #require(try storage.openDirectory("store"))
    let names = try directory.entries().map(\.name).filter { $0.hasSuffix(".segment") }.sorted()
    let file = try #require(try directory.openFile(names[1], .readWrite))
    try [UInt8](repeating: 0, count: 512).withUnsafeBytes { try file.write($0, at: 0) }
    if !hasManifest { try directory.remove(Manifest.fileName) }
    let report = try await Store.salvage("store", to: "salvaged", on: storage)
    let salvaged = try Store(on: storage, at: "salvaged", configuration: configuration)
    #expect(Set(try await salvaged.everything().keys) == ["first"])
    #expect(report.losses.count == (hasManifest ? 1 : 2))
    #expect(report.losses.last?.file == names[1])
    try await salvaged.close()
  }

  /// Returns records with the seed 7, from byte 1024 of the file on.
  private static func deceptive(at start: Int) -> [UInt8] {
    var random = SeededGenerator(seed: 4)
    var value = (0..<8192).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var place = 1024
    for number in 0..<20 {
      let body: [UInt8] = Array("admin".utf8) + [UInt8(number)]
      let length = 20 + body.count
      var record = [UInt8](repeating: 0, count: length)
      record[0] = UInt8(length)
      record[8] = UInt8(2 + number)
      record[15] = 1
      record[17] = 5
      record.replaceSubrange(20..., with: body)
      let checksum = record.withUnsafeBytes {
        RecordHeader.checksum(
          of: $0.baseAddress!, length: length, at: UInt64(place), seed: Checksum(7))
      }
      for byte in 0..<4 { record[4 + byte] = UInt8(truncatingIfNeeded: checksum >> (8 * byte)) }
      value.replaceSubrange((place - start)..<(place - start + length), with: record)
      place += aligned(length)
    }
    return value
  }
}
