extension Store {
  /// Waits until nothing is under way in the background: no compaction, no sealing, no sync that is
  /// due. For tests that must find the same order again.
  package func settle() async throws(StoreError) {
    await compactionEnded()
    try await pipeline.run { () throws(StoreError) in }
  }
}
