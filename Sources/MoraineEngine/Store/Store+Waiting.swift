import MoraineStorage

extension Store {
  /// Waits until nothing is under way in the background: no compaction, no sealing, no sync that is
  /// due. For tests that must find the same order again.
  package func waitUntilIdle() async throws(StoreError) {
    await compactionEnded()
    try await pipeline.run { () throws(StoreError) in }
  }

  /// Runs what blocks on a thread of the pool: Swift has only as many as there are processors.
  package nonisolated func runBlocking<Result: Sendable>(
    _ body: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await SerialQueue(.lasting).run(body)
  }
}
