import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@Suite struct CompactionTests {
  /// Repeated overwriting does not let the log grow without bound, though no caller compacts.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func garbageIsCompactedInTheBackground(mode: Store.Configuration.IOMode) async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store",
      configuration: .testing(segmentSizeBytes: 32 << 10, ioMode: mode))
    var written = 0
    // Ends when half of the appended bytes were removed; without compaction it never ends.
    while try await isStillLarge(store) {
      for number in 0..<200 {
        try await store.set(Array("\(written) \(number)".utf8), forKey: "\(number)")
      }
      written += 1
    }
    #expect(await store.compactionFailure == nil)
    #expect(try await store.count() == 200)
    for number in 0..<200 {
      let expected = Array("\(written - 1) \(number)".utf8)
      #expect(try await store.value(forKey: "\(number)") == expected)
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  private func isStillLarge(_ store: Store) async throws -> Bool {
    let statistics = try await store.statistics()
    return statistics.appendedBytes < 150_000 || statistics.diskBytes * 2 > statistics.appendedBytes
  }

  @Test func deletingEverythingReleasesTheSpace() async throws {
    let storage = MemoryStorage()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<300 { try await store.set([UInt8](0..<50), forKey: "\(number)") }
    for number in 0..<300 { try await store.removeValue(forKey: "\(number)") }
    let report = try await store.compact()
    #expect(report.inputBytes > 20_000 && report.outputBytes == 0)
    // Only the empty active segment is left.
    #expect(try await store.statistics().diskBytes < 256)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == 0)
    #expect(try await again.lastSequence().rawValue == 600)
    try await again.close()
  }

  /// A damaged record is an error, and no segment is removed.
  @Test func damageIsNotCopied() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: .positional)
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<20 { try await store.set([UInt8](0..<60), forKey: "key \(number)") }
    let before = try directory.segments()
    try Forgery(directory: directory).changeSegment { $0[200] ^= 0xFF }
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(error?.code == .corrupted)
    #expect(Set(try directory.segments()).isSuperset(of: before))
    try await store.close()
  }

  @Test func damageThatConcernsNoLiveRecordIsRemoved() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: .positional)
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<20 { try await store.set([UInt8](0..<60), forKey: "key \(number % 9)") }
    try Forgery(directory: directory).changeSegment { $0[200] ^= 0xFF }
    try await store.compact()
    #expect(try await store.verify().isSound)
    #expect(try await store.count() == 9)
    try await store.close()
  }

  @Test func aSecondCompactionFindsNothingToDo() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: .testing(segmentSizeBytes: 4000))
    for number in 0..<300 { try await store.set([UInt8](0..<50), forKey: "\(number % 40)") }
    let digest = try await store.statistics().digest
    #expect(try await store.compact().inputSegmentCount > 2)
    #expect(try await store.compact().inputSegmentCount == 0)
    #expect(try await store.statistics().digest == digest)
    try await store.close()
  }
}
