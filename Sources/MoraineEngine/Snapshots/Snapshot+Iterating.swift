import MoraineFormat
import MoraineStorage

extension Snapshot {
  /// Calls the body with every record, in the order of the log, until it answers false.
  ///
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: (Entry) throws -> Bool) throws {
    guard let state, let number else { return }
    var walk = LogWalk(keyspace: number, slots: state.segments.order)
    while let entry = try state.next(&walk) {
      guard try body(entry) else { return }
    }
  }

  /// Lends every record to the body, in the order of the log, until it answers false.
  ///
  /// As ``forEach(_:)`` without an array for each key and value: where a segment is mapped, keys
  /// and what is stored as it is are lent where they lie, and what is compressed from a buffer that
  /// the next record uses again.
  ///
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEachSpan(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard let state, let number else { return }
    // Bytes that were read into a buffer are another reader's in the next moment.
    guard state.isMapped else {
      return try forEach { try body($0.key.bytes.span.bytes, $0.value.span.bytes) }
    }
    let scratch = ScratchBuffer()
    var walk = LogWalk(keyspace: number, slots: state.segments.order)
    try withExtendedLifetime(state) {
      while let (address, record) = try walk.nextRecord(state.index, state.segments) {
        let value = try state.segments.lentValue(of: record, at: address, scratch)
        guard try body(record.key.bytes, value.bytes) else { return }
      }
    }
  }
}

extension SnapshotState {
  fileprivate func next(_ walk: inout LogWalk) throws(StoreError) -> Entry? {
    try reading { () throws(StoreError) in try walk.next(index, segments) }
  }
}
