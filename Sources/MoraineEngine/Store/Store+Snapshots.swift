import MoraineFormat

extension Store {
  /// The store as it is now, to be read from any thread; see ``Snapshot``.
  ///
  /// - Throws: `.closed`, `.suspended`; `.corrupted`, `.io` when the index has to be read and
  ///   cannot be.
  /// - Complexity: O(segments), and eight bytes for about 350 keys; O(1) when nothing was written
  ///   since the last one. The first one after opening reads the whole index checkpoint.
  public func snapshot() async throws(StoreError) -> Snapshot {
    try await checkOpen()
    guard engine != nil else { return Snapshot(nil) }
    let (sequence, count) = (engine!.lastSequence, compaction.count)
    if let last = readers.snapshot(at: sequence, compactionCount: count) { return Snapshot(last) }
    let handle = SnapshotHandle(try SnapshotState(&engine!, readers.live))
    readers.keep(handle, compactionCount: count)
    return Snapshot(handle)
  }
}

extension Keyspace {
  /// The keyspace as it is now. As ``Store/snapshot()``.
  public func snapshot() async throws(StoreError) -> Snapshot {
    try await store.snapshot().keyspace(name)
  }
}
