import MoraineEngine
import Synchronization
import Testing

@Suite struct VerificationProgressTests {
  /// Regression: the progress did not advance within a segment, and a store of one segment reported
  /// no progress.
  @Test func verifyReportsProgressWithinASegment() async throws {
    let store = Store.inMemory()
    try await store.write { batch in
      for index in 0..<9000 { try batch.set([1], forKey: Key("\(index)")) }
    }
    let seen = Mutex<[Store.Progress]>([])
    let report = try await store.verify { progress in seen.withLock { $0.append(progress) } }
    try await store.close()
    let completed = seen.withLock { $0.map(\.completedBytes) }
    #expect(completed.count >= 3)
    #expect(completed == completed.sorted())
    #expect(Set(completed).count == completed.count, "every step advances")
    #expect(completed.last == report.checkedBytes)
  }
}
