import MoraineFormat

extension Store {
  /// Returns the current state of the store, for reading from any thread; see ``Store/Snapshot``.
  ///
  /// - Throws: `.closed`, `.suspended`; `.corrupted`, `.io` when the index must be read and cannot
  ///   be.
  /// - Complexity: O(segments), and eight bytes for about 350 keys; O(1) when the last snapshot
  ///   still exists and nothing was written since. The first snapshot after opening reads the whole
  ///   index checkpoint.
  public func snapshot() async throws(StoreError) -> Store.Snapshot {
    try await checkOpen()
    guard engine != nil else { return Store.Snapshot(nil) }
    let (sequence, count) = (engine!.log.lastSequence, compaction.count)
    if let last = readers.snapshot(at: sequence, compactionCount: count) {
      return Store.Snapshot(last)
    }
    let handle = SnapshotHandle(try SnapshotState(&engine!, readers.live))
    readers.keep(handle, compactionCount: count)
    return Store.Snapshot(handle)
  }
}

extension Keyspace {
  /// Returns the current state of the keyspace, like ``Store/snapshot()``.
  public func snapshot() async throws(StoreError) -> Store.Snapshot {
    try await store.snapshot().keyspace(name)
  }
}
