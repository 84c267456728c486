/// Repetition of reads of snapshots whose files are gone. Without mappings, a snapshot opens a file
/// when it is read. Another process may have compacted and removed the file by then.
extension Store {
  /// Reads a snapshot. Repeats the read with a new snapshot when another process has removed files
  /// that the read needs.
  ///
  /// - Parameter body: runs outside of the store's actor, and may run several times.
  /// - Throws: the errors of ``snapshot()`` and of the body.
  package nonisolated func readingSnapshot<Value: Sendable>(
    _ body: @Sendable (Store.Snapshot) async throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    var failureCount = 0
    while true {
      let current = try await snapshot()
      do throws(StoreError) { return try await body(current) } catch {
        failureCount += 1
        guard failureCount <= Self.rereadLimit, try await isOutdated(current, error) else {
          throw error
        }
      }
    }
  }

  /// Returns whether a read of a snapshot failed because another process has replaced the files
  /// that it read. If so, a new snapshot has the new files.
  package func isOutdated(
    _ snapshot: Store.Snapshot, _ error: StoreError
  ) async throws(StoreError) -> Bool {
    guard let count = snapshot.stateCount else { return false }
    return try await isOutdated(since: count, error)
  }

  /// Returns whether an error comes from files that another process has replaced since this process
  /// had read a number of states.
  func isOutdated(since count: UInt64, _ error: StoreError) async throws(StoreError) -> Bool {
    guard error.code == .corrupted else { return false }
    // Another task may have read the new files already.
    if count != peers.readStateCount { return true }
    return try await wasReplaced(error)
  }
}
