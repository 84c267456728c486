import MoraineFormat
import MoraineStorage

extension EngineState {
  /// Appends all operations as one atomic unit and makes them visible together.
  ///
  /// - Parameter isDelete: true when it gives back space and needs hardly any.
  /// - Returns: the last number; nil when there was nothing to do.
  /// - Complexity: O(bytes). The index is asked twice for each key: whatever may fail must have
  ///   failed before the first byte is written; the first time fetches what the second one needs.
  mutating func commit(
    _ operations: [BatchOperation], isDelete: Bool
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    if operations.count == 1 { return try commitAlone(operations[0]) }
    try checkWritable()
    let total = operations.reduce(0) { $0 &+ Self.recordBound($1) }
    guard total <= Limits.batchLengthBytes else {
      throw StoreError(.valueTooLarge, "a batch of \(total) bytes; split it")
    }
    guard isDelete ? hasRoom(for: total) : hasRoom(forPuts: total) else {
      return .needsRoom(total)
    }
    let hashes = hashesFetchingBuckets(operations)
    var older: [ReplacedRecord?] = []
    older.reserveCapacity(operations.count)
    if self.index.isLazy { for hash in hashes { try admit(hash) } }
    for (index, operation) in operations.enumerated() {
      older.append(try existing(operation.place, hash: hashes[index]).map(ReplacedRecord.init))
    }
    if self.index.isFrozen { for hash in hashes { self.index.thaw(hash) } }
    try appendSyncMarkIfDue()
    let first = lastSequence
    // Whatever happens now, these numbers are used up.
    lastSequence += UInt64(operations.count)
    let places = try appendAll(operations, after: first)
    for (index, operation) in operations.enumerated() {
      let found = entry(of: index, operations, places, hashes[index], older[index], after: first)
      show(
        operation, places[index], found, hash: hashes[index], sequence: first + UInt64(index) + 1)
    }
    publish()
    for id in Set(operations.map(\.keyspace)) { keyspaces.note(id) }
    return .done(SequenceNumber(rawValue: lastSequence))
  }

  /// A single operation may be as large as its value, and asks for exactly the room that it takes:
  /// what is left behind it in a segment larger than others could not be addressed.
  private mutating func commitAlone(
    _ operation: BatchOperation
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    guard let value = operation.value else {
      return try operation.key.bytes.withBytes { (key) throws(StoreError) in
        try delete(key, keyspace: operation.keyspace)
      }
    }
    switch try put(operation.key, value, keyspace: operation.keyspace) {
    case .done(let sequence): return .done(sequence)
    case .needsRoom(let count): return .needsRoom(count)
    }
  }

  /// The most that a record of this operation takes.
  private static func recordBound(_ operation: BatchOperation) -> Int {
    aligned(
      RecordHeader.fixedLength + 10 + operation.key.bytes.count + (operation.value?.count ?? 0))
  }

  private func hashesFetchingBuckets(_ operations: [BatchOperation]) -> [UInt64] {
    operations.map { operation in
      let hash = operation.key.bytes.withBytes { self.hash($0, operation.keyspace) }
      index.prefetch(hash)
      return hash
    }
  }

  @inline(__always)
  private func existing(
    _ place: BatchOperation.Place, hash: UInt64
  ) throws(StoreError) -> Found? {
    try place.key.bytes.withBytes { (bytes) throws(StoreError) in
      try find(bytes, place.keyspace, hash: hash)
    }
  }

  private mutating func appendAll(
    _ operations: [BatchOperation], after first: UInt64
  ) throws(StoreError) -> [(address: Address, length: Int)] {
    let start = table[place.slot].end
    var places: [(address: Address, length: Int)] = []
    places.reserveCapacity(operations.count)
    do throws(StoreError) {
      for (index, operation) in operations.enumerated() {
        let role: BatchRole = index == operations.count - 1 ? .end : .more
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
        draft.keyspace = operation.keyspace
        draft.batch = role
        draft.batchCount = UInt32(count)
        return (try append(draft), draft.length)
      }
    }
  }

  private mutating func show(
    _ operation: BatchOperation, _ place: (address: Address, length: Int), _ existing: Replaceable?,
    hash: UInt64, sequence: UInt64
  ) {
    if operation.value != nil {
      install(
        put: place.address, length: place.length, sequence: sequence, hash: hash,
        keyspace: operation.keyspace, over: existing)
    } else {
      if let existing { uninstall(existing, hash: hash, keyspace: operation.keyspace) }
      table[place.address.slot].deleteBytes &+= UInt64(aligned(place.length))
    }
    count(sequence, in: place.address.slot)
  }

  /// The entry of an operation's key as the operations before it have left it. Reads nothing, so
  /// that it cannot fail: the batch is in the log by now.
  private func entry(
    of index: Int, _ operations: [BatchOperation], _ places: [(address: Address, length: Int)],
    _ hash: UInt64, _ older: ReplacedRecord?, after first: UInt64
  ) -> Replaceable? {
    var probe = self.index.probe(hash)
    while let slot = probe.next(self.index) {
      let address = Address(rawValue: slot.pointee & Address.mask)
      if let older, older.address == address {
        return Replaceable(slot: slot, length: older.length, sequence: older.sequence)
      }
      // One of this batch's own: they lie in the order of the operations.
      guard address.slot == places[0].address.slot, address.offset >= places[0].address.offset
      else { continue }
      let own = places[..<index].partitioningIndex { $0.address.offset >= address.offset }
      if own < index, operations[own].place == operations[index].place {
        return Replaceable(
          slot: slot, length: places[own].length, sequence: first + UInt64(own) + 1)
      }
    }
    return nil
  }
}
