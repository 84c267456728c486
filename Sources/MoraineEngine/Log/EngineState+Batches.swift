import MoraineFormat
import MoraineStorage

/// One operation of a batch; no value is a delete.
typealias BatchOperation = (key: Key, value: [UInt8]?)

extension EngineState {
  /// Appends all operations as one atomic unit and makes them visible together.
  ///
  /// - Parameter isDelete: true when it gives back space and needs hardly any.
  /// - Complexity: O(bytes). The index is asked twice for each key: whatever may fail must have
  ///   failed before the first byte is written; the first time fetches what the second one needs.
  mutating func commit(
    _ operations: [BatchOperation], isDelete: Bool
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try checkWritable()
    let total = operations.reduce(0) { $0 &+ Self.recordBound($1) }
    guard operations.count == 1 || total <= Limits.batchLengthBytes else {
      throw StoreError(.valueTooLarge, "a batch of \(total) bytes; split it")
    }
    guard isDelete ? hasRoom(for: total) : hasRoom(forPuts: total) else {
      return .needsRoom(total)
    }
    let hashes = hashesFetchingBuckets(operations)
    for (index, operation) in operations.enumerated() {
      _ = try existing(operation.key, hash: hashes[index])
    }
    try appendSyncMarkIfDue()
    let first = lastSequence
    // Whatever happens now, these numbers are used up.
    lastSequence += UInt64(operations.count)
    let places = try appendAll(operations, after: first)
    for (index, operation) in operations.enumerated() {
      try show(operation, places[index], hash: hashes[index], sequence: first + UInt64(index) + 1)
    }
    publish()
    return .done(SequenceNumber(rawValue: lastSequence))
  }

  /// The most that a record of this operation takes.
  private static func recordBound(_ operation: BatchOperation) -> Int {
    aligned(
      RecordHeader.fixedLength + 8 + operation.key.bytes.count + (operation.value?.count ?? 0))
  }

  private func hashesFetchingBuckets(_ operations: [BatchOperation]) -> [UInt64] {
    operations.map { operation in
      let hash = operation.key.bytes.withBytes { self.hash($0, 0) }
      index.prefetch(hash)
      return hash
    }
  }

  @inline(__always)
  private func existing(_ key: Key, hash: UInt64) throws(StoreError) -> Found? {
    try key.bytes.withBytes { (bytes) throws(StoreError) in try find(bytes, 0, hash: hash) }
  }

  private mutating func appendAll(
    _ operations: [BatchOperation], after first: UInt64
  ) throws(StoreError) -> [(address: Address, length: Int)] {
    let start = table[place.slot].end
    var places: [(address: Address, length: Int)] = []
    places.reserveCapacity(operations.count)
    do throws(StoreError) {
      for (index, operation) in operations.enumerated() {
        let role: BatchRole =
          operations.count == 1 ? .alone : index == operations.count - 1 ? .end : .more
        places.append(
          try append(operation, role, of: operations.count, sequence: first + UInt64(index) + 1))
      }
    } catch {
      // Part of a batch must not stay where the next record goes.
      table[place.slot].end = start
      do throws(StorageError) { try active?.file.truncate(to: UInt64(start)) } catch {
        pipeline.poison(StoreError(error))
      }
      throw error
    }
    return places
  }

  private mutating func append(
    _ operation: BatchOperation, _ role: BatchRole, of count: Int, sequence: UInt64
  ) throws(StoreError) -> (address: Address, length: Int) {
    try operation.key.bytes.withBytes { (key) throws(StoreError) in
      try (operation.value ?? []).withBytes { (value) throws(StoreError) in
        var draft = RecordDraft(
          sequence: sequence, kind: operation.value == nil ? .delete : .put, key: key,
          stored: value)
        if let compressed = compressor.compress(value) {
          draft.codec = .lz4
          draft.rawLength = value.count
          draft.stored = compressed
        }
        draft.batch = role
        draft.batchCount = UInt32(count)
        return (try append(draft), draft.length)
      }
    }
  }

  private mutating func show(
    _ operation: BatchOperation, _ place: (address: Address, length: Int), hash: UInt64,
    sequence: UInt64
  ) throws(StoreError) {
    let existing = try existing(operation.key, hash: hash)
    if operation.value != nil {
      install(
        put: place.address, length: place.length, sequence: sequence, hash: hash, over: existing)
    } else {
      if let existing { uninstall(existing, hash: hash) }
      table[place.address.slot].deleteBytes &+= UInt64(aligned(place.length))
    }
    count(sequence, in: place.address.slot)
  }
}
