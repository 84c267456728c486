import MoraineFormat

extension KeyspaceTable {
  /// What a checkpoint says of them; nil when nobody has counted.
  var checkpointed: [CheckpointHeader.Keyspace]? {
    guard isCounted else { return nil }
    return listedIDs.compactMap { id in
      let figures = self[id]
      guard figures.count > 0 else { return nil }
      return CheckpointHeader.Keyspace(
        id: id, recordCount: UInt64(clamping: figures.count), liveBytes: figures.liveBytes)
    }
  }

  /// Begins with what a checkpoint says of them.
  ///
  /// - Parameter counted: nil when it says nothing that holds.
  mutating func adopt(_ counted: [CheckpointHeader.Keyspace]?) {
    guard let counted else {
      isCounted = isEmpty
      return
    }
    for keyspace in counted {
      self[keyspace.id] = Figures(
        count: Int(clamping: keyspace.recordCount), liveBytes: keyspace.liveBytes)
    }
  }
}

extension EngineState {
  /// Counts what is live in each keyspace, where that is not known.
  ///
  /// - Complexity: O(keys), each with a look at its record, when the store was opened with a
  ///   checkpoint older than the last compaction; otherwise O(1).
  mutating func countKeyspaces() throws(StoreError) {
    if keyspaces.isCounted { return }
    try admitAll()
    var counted = keyspaces
    counted.forgetFigures()
    for address in index.addresses() {
      let record = try table.record(at: address)
      guard record.header.keyspace != 0 else { continue }
      counted.gain(record.header.keyspace, bytes: UInt64(aligned(record.header.length)))
    }
    keyspaces = counted
  }

  /// What is live in a keyspace.
  mutating func figures(of id: UInt16) throws(StoreError) -> KeyspaceTable.Figures {
    try countKeyspaces()
    guard id == 0 else { return keyspaces[id] }
    let named = keyspaces.named
    return KeyspaceTable.Figures(
      count: index.count - named.count, liveBytes: liveBytes &- named.liveBytes)
  }
}
