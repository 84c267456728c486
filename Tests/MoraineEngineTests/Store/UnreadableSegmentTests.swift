import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A segment that cannot be read while the store is verified.
@Suite struct UnreadableSegmentTests {
  /// Regression: the marks and footers of all later segments were reported as damaged, because
  /// their digests include the records that could not be read.
  @Test func readThatFailsIsReportedAloneAndIsNoDamage() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store",
      configuration: .testing(segmentSizeBytes: 400, ioMode: .positional))
    for number in 0..<30 {
      try await store.set([UInt8](repeating: 1, count: 40), forKey: Key("\(number)"))
    }
    try await store.waitUntilIdle()
    #expect(try await store.verify().isSound)
    let name = "0000000001.segment"
    let hasStruck = Mutex(false)
    storage.setScript { event in
      guard event.operation == .read, event.file == name else { return nil }
      let isFirst = hasStruck.withLock { hasStruck in
        defer { hasStruck = true }
        return !hasStruck
      }
      return isFirst ? .fail(.ioError) : nil
    }
    let report = try await store.verify()
    #expect(report.problems.map(\.code) == [.io])
    #expect(report.problems.map(\.file) == [name])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: where the read of another key's record failed at a delete, the error was
  /// swallowed, and the put that the delete removes was reported as missing in the index.
  @Test func readThatFailsAtAnyMomentBlamesNoIndex() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(ioMode: .positional))
    let keyspace = try store.orderedKeyspace(named: "ordered")
    // All keys but the first are tied in the tree: a record has to be read for each look-up.
    try await keyspace.set([1], forKey: "a")
    for number in 0..<8 { try await keyspace.set([1], forKey: Key("bbbbbbbb\(number)")) }
    for number in 0..<4 { try await keyspace.removeValue(forKey: Key("bbbbbbbb\(number * 2)")) }
    try await store.waitUntilIdle()
    var (failing, isOver) = (0, false)
    while !isOver {
      let (wanted, seen) = (failing, CallCounter())
      storage.setScript { event in
        guard event.operation == .read, event.file.hasSuffix(".segment") else { return nil }
        return seen.next() == wanted ? .fail(.ioError) : nil
      }
      let report = try await store.verify()
      #expect(report.problems.allSatisfy { $0.code == .io }, "read \(wanted): \(report.problems)")
      (isOver, failing) = (seen.next() <= wanted, failing + 1)
    }
    #expect(failing > 8, "the look-ups have read no records")
    storage.setScript(nil)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
