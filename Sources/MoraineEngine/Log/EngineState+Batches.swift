import MoraineFormat
import MoraineStorage

/// One operation of a batch, compressed already.
struct PreparedOperation {
  let key: [UInt8]
  /// Nil for a delete.
  let stored: [UInt8]?
  let codec: RecordCodec
  let rawLength: Int
}

extension EngineState {
  mutating func prepare(_ key: [UInt8], _ value: [UInt8]?) -> PreparedOperation {
    guard let value else {
      return PreparedOperation(key: key, stored: nil, codec: .raw, rawLength: 0)
    }
    let compressed = value.withUnsafeBytes { bytes in compressor.compress(bytes).map(Array.init) }
    return PreparedOperation(
      key: key, stored: compressed ?? value, codec: compressed == nil ? .raw : .lz4,
      rawLength: value.count)
  }

  /// Appends all operations as one atomic unit and makes them visible together.
  mutating func commit(
    _ operations: [PreparedOperation]
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try checkWritable()
    let total = operations.reduce(0) { $0 + aligned(32 + $1.key.count + ($1.stored?.count ?? 0)) }
    guard operations.count == 1 || total <= Limits.batchLengthBytes else {
      throw StoreError(.valueTooLarge, "a batch of \(total) bytes; split it")
    }
    guard hasRoom(for: total) else { return .needsRoom(total) }
    for operation in operations { _ = try existing(operation.key) }
    try appendSyncMarkIfDue()
    let first = lastSequence
    // Whatever happens now, these numbers are used up.
    lastSequence += UInt64(operations.count)
    let addresses = try appendAll(operations, after: first)
    for (index, operation) in operations.enumerated() {
      try show(operation, addresses[index], sequence: first + UInt64(index) + 1)
    }
    publish()
    return .done(SequenceNumber(rawValue: lastSequence))
  }

  private func existing(
    _ key: [UInt8]
  ) throws(StoreError) -> Found? {
    try key.withBytes { (bytes) throws(StoreError) in
      try find(bytes, 0, hash: hash(bytes, 0))
    }
  }

  private mutating func appendAll(
    _ operations: [PreparedOperation], after first: UInt64
  ) throws(StoreError) -> [(Address, Int)] {
    guard let active else { fatalError("append without an active segment") }
    let start = table[active.slot].end
    var addresses: [(Address, Int)] = []
    addresses.reserveCapacity(operations.count)
    do throws(StoreError) {
      for (index, operation) in operations.enumerated() {
        let role: BatchRole =
          operations.count == 1 ? .alone : index == operations.count - 1 ? .end : .more
        addresses.append(
          try append(
            operation, role, of: operations.count, sequence: first + UInt64(index) + 1))
      }
    } catch {
      // Part of a batch must not stay where the next record goes.
      table[active.slot].end = start
      do throws(StorageError) { try active.file.truncate(to: UInt64(start)) } catch {
        pipeline.poison(StoreError(error))
      }
      throw error
    }
    return addresses
  }

  private mutating func append(
    _ operation: PreparedOperation, _ role: BatchRole, of count: Int, sequence: UInt64
  ) throws(StoreError) -> (Address, Int) {
    try operation.key.withBytes { (key) throws(StoreError) in
      try (operation.stored ?? []).withBytes { (stored) throws(StoreError) in
        var draft = RecordDraft(
          sequence: sequence, kind: operation.stored == nil ? .delete : .put, key: key,
          stored: stored)
        draft.codec = operation.codec
        draft.rawLength = operation.rawLength
        draft.batch = role
        draft.batchCount = UInt32(count)
        return (try append(draft), draft.length)
      }
    }
  }

  private mutating func show(
    _ operation: PreparedOperation, _ place: (Address, Int), sequence: UInt64
  ) throws(StoreError) {
    let hash = operation.key.withUnsafeBytes { self.hash($0, 0) }
    let existing = try existing(operation.key)
    if operation.stored != nil {
      install(put: place.0, length: place.1, sequence: sequence, hash: hash, over: existing)
    } else if let existing {
      uninstall(existing, hash: hash)
    }
    count(sequence, in: place.0.slot)
  }
}
