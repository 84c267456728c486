import MoraineFormat
import MoraineStorage

extension EngineState {
  /// Appends all operations as one atomic unit and makes them visible together.
  ///
  /// - Parameters:
  ///   - isDelete: true when it gives back space and needs hardly any.
  ///   - prepared: for a batch of one large value, which all attempts share; nil for others.
  /// - Returns: the last number; nil when there was nothing to do.
  /// - Complexity: O(bytes). The index is asked twice for each key: whatever may fail must have
  ///   failed before the first byte is written; the first time fetches what the second one needs.
  mutating func commit(
    _ batch: BatchOperations, isDelete: Bool, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try batch.withPieces { (batch) throws(StoreError) in
      if batch.count == 1 { return try commitAlone(batch, prepared) }
      return try commitTogether(batch, isDelete: isDelete)
    }
  }

  /// A batch of fewer operations needs no more memory than is always taken ahead.
  private static let largeBatch = BucketArray.chunkBuckets / 3

  private mutating func commitTogether(
    _ batch: BatchPieces, isDelete: Bool
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try checkWritable()
    let total = batch.operations.reduce(0) { $0 &+ Self.recordBound($1) }
    guard total <= Limits.batchLengthBytes else {
      throw StoreError(.valueTooLarge, "a batch of \(total) bytes; split it")
    }
    guard isDelete ? hasRoom(for: total) : hasRoom(forPuts: total) else {
      return .needsRoom(total)
    }
    let hashes = hashesFetchingBuckets(batch)
    let older = try replacedRecords(batch, hashes)
    // Many insertions may need more memory than one.
    if index.needsCare || batch.count > Self.largeBatch {
      try index.secure(insertions: batch.count)
      for hash in hashes { index.thaw(hash) }
    }
    try appendSyncMarkIfDue()
    let first = lastSequence
    // Whatever happens now, these numbers are used up.
    lastSequence += UInt64(batch.count)
    let places = try appendAll(batch, after: first)
    compressor.trim()
    for index in 0..<batch.count {
      let found = entry(of: index, batch, places, hashes[index], older[index], after: first)
      show(
        batch.operations[index], places[index], found, hash: hashes[index],
        sequence: first + UInt64(index) + 1)
    }
    publish()
    note(batch)
    return .done(SequenceNumber(rawValue: lastSequence))
  }

  /// A single operation may be as large as its value, and asks for exactly the room that it takes:
  /// what is left behind it in a segment larger than others could not be addressed.
  private mutating func commitAlone(
    _ batch: BatchPieces, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    let operation = batch.operations[0]
    let key = batch.key(0)
    if operation.isDelete { return try delete(key, keyspace: operation.keyspace) }
    let outcome = try batch.withValue(0) { (value) throws(StoreError) in
      try put(key, value, keyspace: operation.keyspace, prepared)
    }
    switch outcome {
    case .done(let sequence): return .done(sequence)
    case .needsRoom(let count): return .needsRoom(count)
    }
  }

  /// The most that a record of this operation takes.
  private static func recordBound(_ operation: BatchOperation) -> Int {
    recordBound(keyLength: operation.keyLength, valueLength: operation.valueLength)
  }

  private func hashesFetchingBuckets(_ batch: BatchPieces) -> [UInt64] {
    var hashes: [UInt64] = []
    hashes.reserveCapacity(batch.count)
    for position in 0..<batch.count {
      let hash = hash(batch.key(position), batch.operations[position].keyspace)
      index.prefetch(hash)
      hashes.append(hash)
    }
    return hashes
  }

  /// What the keys have so far.
  private mutating func replacedRecords(
    _ batch: BatchPieces, _ hashes: [UInt64]
  ) throws(StoreError) -> [ReplacedRecord?] {
    var older: [ReplacedRecord?] = []
    older.reserveCapacity(batch.count)
    if index.needsCare { for hash in hashes { try admit(hash) } }
    for position in 0..<batch.count {
      let keyspace = batch.operations[position].keyspace
      let found = try table.find(
        batch.key(position), keyspace, hash: hashes[position], in: index)
      older.append(found.map(ReplacedRecord.init))
    }
    return older
  }

  private mutating func appendAll(
    _ batch: BatchPieces, after first: UInt64
  ) throws(StoreError) -> [(address: Address, length: Int)] {
    let start = table[place.slot].end
    var places: [(address: Address, length: Int)] = []
    places.reserveCapacity(batch.count)
    do throws(StoreError) {
      for index in 0..<batch.count {
        places.append(try append(index, of: batch, sequence: first + UInt64(index) + 1))
      }
    } catch {
      // The first took back its own bytes.
      if places.isEmpty { throw error }
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
    _ index: Int, of batch: BatchPieces, sequence: UInt64
  ) throws(StoreError) -> (address: Address, length: Int) {
    let operation = batch.operations[index]
    let key = batch.key(index)
    let count = batch.count
    return try batch.withValue(index) { (value) throws(StoreError) in
      var draft = RecordDraft(
        sequence: sequence, kind: operation.isDelete ? .delete : .put, key: key, stored: value)
      if let compressed = compressor.compress(value) {
        draft.codec = .lz4
        draft.rawLength = value.count
        draft.stored = compressed
      }
      draft.keyspace = operation.keyspace
      draft.batch = index == count - 1 ? .end : .more
      draft.batchCount = UInt32(count)
      return (try append(draft), draft.length)
    }
  }

  private mutating func show(
    _ operation: BatchOperation, _ place: (address: Address, length: Int), _ existing: Replaceable?,
    hash: UInt64, sequence: UInt64
  ) {
    if operation.isDelete {
      if let existing { uninstall(existing, hash: hash, keyspace: operation.keyspace) }
      table[place.address.slot].deleteBytes &+= UInt64(aligned(place.length))
    } else {
      install(
        put: place.address, length: place.length, sequence: sequence, hash: hash,
        keyspace: operation.keyspace, over: existing)
    }
    count(sequence, in: place.address.slot)
  }

  /// Tells who watches, once for each keyspace.
  private func note(_ batch: BatchPieces) {
    let first = batch.operations[0].keyspace
    if batch.operations.allSatisfy({ $0.keyspace == first }) {
      keyspaces.note(first)
    } else {
      for id in Set(batch.operations.map(\.keyspace)) { keyspaces.note(id) }
    }
  }

  /// The entry of an operation's key as the operations before it have left it. Reads nothing, so
  /// that it cannot fail: the batch is in the log by now.
  private func entry(
    of index: Int, _ batch: BatchPieces, _ places: [(address: Address, length: Int)],
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
      if own < index, batch.areAboutTheSame(own, index) {
        return Replaceable(
          slot: slot, length: places[own].length, sequence: first + UInt64(own) + 1)
      }
    }
    return nil
  }
}
