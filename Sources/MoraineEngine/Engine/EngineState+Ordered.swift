import MoraineFormat

// Operations on ordered keyspaces. Each finds its place in the tree, and whatever may fail fails,
// before the first byte is appended.
extension EngineState {
  mutating func orderedValue(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    guard let found = try visible(key, keyspace) else { return nil }
    try log.table.verify(found.record, at: found.address)
    return try log.table.value(of: found.record, at: found.address)
  }

  /// Validates the nodes of a tree that an operation on a key reads, when they come from a
  /// checkpoint.
  ///
  /// - Parameter neighbours: whether to validate the nodes beside them too, which a change may
  ///   need.
  /// - Throws: as ``replaceDamagedIndex()``.
  @inline(__always)
  mutating func validateNodes(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, neighbours: Bool
  ) throws(StoreError) {
    guard live.trees.hasUnvalidatedPages,
      !live.trees.validate(TreeKey(key), in: keyspace, neighbours: neighbours)
    else { return }
    try replaceDamagedIndex()
  }

  /// Throws when a key is too long for an ordered keyspace.
  static func checkOrdered(_ key: UnsafeRawBufferPointer) throws(StoreError) {
    guard key.count <= StoreLimits.orderedKeyLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "the key has \(key.count) bytes; the limit of an ordered keyspace is "
          + "\(StoreLimits.orderedKeyLengthBytes)")
    }
  }

  /// Finds the place of a key, and takes the memory that a change of the tree may need.
  private mutating func orderedPlace(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> (place: TreePlace, existing: ReplacedRecord?) {
    try validateNodes(key, keyspace, neighbours: true)
    live.trees.tend()
    try live.trees.secureChange()
    let place = try live.trees.place(of: TreeKey(key), in: keyspace, log.table)
    guard let address = place.existing else { return (place, nil) }
    return (place, ReplacedRecord(try log.table.record(at: address), at: address))
  }

  /// Appends a put to an ordered keyspace, and makes it visible.
  mutating func putOrdered(_ draft: RecordDraft, hash: UInt64) throws(StoreError) -> SequenceNumber
  {
    try Self.checkOrdered(draft.key)
    let (place, existing) = try orderedPlace(draft.key, draft.keyspace)
    return try appendOrdered(draft, hash, place, existing)
  }

  /// Appends a delete to an ordered keyspace, if the key exists.
  mutating func deleteOrdered(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, evenExpired: Bool
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    let (place, existing) = try orderedPlace(key, keyspace)
    guard let existing else { return .done(nil) }
    if !evenExpired {
      let record = try log.table.record(at: existing.address)
      if log.table.isHiddenAndIntact(record, at: existing.address, now) { return .done(nil) }
    }
    let draft = RecordDraft(
      sequence: log.lastSequence &+ 1, kind: .delete, keyspace: keyspace, key: key,
      value: UnsafeRawBufferPointer(start: nil, count: 0), compressed: nil)
    let length = aligned(draft.length)
    guard log.hasRoom(for: length) else { return .needsRoom(length) }
    return .done(try appendOrdered(draft, hash(key, keyspace), place, existing))
  }

  private mutating func appendOrdered(
    _ draft: RecordDraft, _ hash: UInt64, _ place: TreePlace, _ existing: ReplacedRecord?
  ) throws(StoreError) -> SequenceNumber {
    assert(draft.sequence == log.lastSequence &+ 1, "a record with a number out of order")
    try log.appendSyncMarkIfDue(live.digest)
    // From here on the number is used up, even if the append fails.
    log.lastSequence &+= 1
    let address = try log.append(draft)
    log.countRecord(
      log.lastSequence, draft.kind.effect, length: draft.length, in: address.slot)
    if draft.expiryMilliseconds != 0 {
      log.table.addExpiry(draft.expiryMilliseconds, at: address)
    }
    live.apply(
      draft.kind.effect, TreeKey(draft.key), at: address, length: draft.length,
      sequence: log.lastSequence, hash: hash, keyspace: draft.keyspace, place, over: existing,
      in: log.table)
    publishRecent(draft.key, draft.keyspace, hash, address, length: draft.length)
    log.publish()
    keyspaces.recordCommit(draft.keyspace)
    return SequenceNumber(rawValue: log.lastSequence)
  }

  /// Makes a record of an ordered keyspace visible that is in the log already.
  mutating func replayOrdered(_ address: Address, hash: UInt64) throws(StoreError) {
    let record = try log.table.record(at: address)
    let header = record.header
    let expiry = record.expiryMilliseconds
    // Finding the place may reuse the buffer that this record was read into.
    let key = [UInt8](record.key)
    try key.withBytes { (key) throws(StoreError) in
      precondition(key.count <= StoreLimits.orderedKeyLengthBytes, "a stray key enters a tree")
      guard live.trees.validate(TreeKey(key), in: header.keyspace, neighbours: true) else {
        throw .indexDamaged("the index checkpoint is damaged", checkpointNames.first)
      }
      let (place, existing) = try orderedPlace(key, header.keyspace)
      if let expiry { log.table.addExpiry(expiry, at: address) }
      log.countReplayed(header, in: address.slot)
      log.lastSequence = max(log.lastSequence, header.sequence)
      if let existing, existing.sequence > header.sequence { return }
      live.apply(
        header.kind.effect, TreeKey(key), at: address, length: header.length,
        sequence: header.sequence, hash: hash, keyspace: header.keyspace, place, over: existing,
        in: log.table)
    }
  }
}

// Batches with operations on ordered keyspaces.
extension EngineState {
  /// What the operations so far have made of a key of an ordered keyspace.
  private struct OrderedChange {
    let keyspace: UInt16
    let place: TreePlace
    /// Index of the first operation on the key: its bytes stand for the key.
    let first: Int
    /// The record that the key has now; nil when it has none.
    var current: ReplacedRecord?
  }

  /// Appends all operations of a batch, some of them on ordered keyspaces, and makes them visible
  /// together. The caller has checked the limits and the room.
  mutating func commitOrdered(
    _ batch: BatchPieces, _ hashes: [UInt64]
  ) throws(StoreError) -> SequenceNumber? {
    // A damaged page of the hash index is replaced together with the trees: before any place is
    // found.
    if live.index.needsCare { for hash in hashes { try validatePages(hash) } }
    if live.trees.hasUnvalidatedPages {
      for index in 0..<batch.count where live.trees.isOrdered(batch.operations[index].keyspace) {
        try validateNodes(batch.key(index), batch.operations[index].keyspace, neighbours: true)
      }
    }
    var older: [ReplacedRecord?] = Array(repeating: nil, count: batch.count)
    for index in 0..<batch.count {
      let (key, keyspace) = (batch.key(index), batch.operations[index].keyspace)
      guard live.trees.isOrdered(keyspace) else {
        older[index] = try log.table.find(key, keyspace, hash: hashes[index], in: live.index)
          .map(ReplacedRecord.init)
        continue
      }
      if batch.operations[index].kind.effect == .sets { try Self.checkOrdered(key) }
    }
    let ordered = try orderedChanges(batch)
    var changes = ordered.changes
    try live.index.secure(insertions: batch.count)
    for index in 0..<batch.count where !live.trees.isOrdered(batch.operations[index].keyspace) {
      live.index.makeUnique(hashes[index])
    }
    try live.trees.secure(changes: batch.count)
    try log.appendSyncMarkIfDue(live.digest)
    let first = log.lastSequence
    // From here on these numbers are used up, even if the append fails.
    log.lastSequence += UInt64(batch.count)
    let places = try appendAll(batch, after: first)
    compressor.trim()
    for index in 0..<batch.count {
      let operation = batch.operations[index]
      addExpiry(of: operation, at: places[index].address)
      if let number = ordered.numbers[index] {
        apply(index, of: batch, places[index], hashes[index], after: first, &changes[number])
        continue
      }
      let found = entry(of: index, batch, places, hashes[index], older[index], after: first)
      apply(
        operation.kind.effect, at: places[index].address, length: places[index].length,
        sequence: first + UInt64(index) + 1, hash: hashes[index], keyspace: operation.keyspace,
        over: found)
    }
    let isApplied = applyToTrees(changes, batch)
    publishRecent(batch, places, hashes)
    log.publish()
    recordCommit(of: batch)
    if !isApplied { try rebuildForgedIndex() }
    return SequenceNumber(rawValue: log.lastSequence)
  }

  /// Finds the places of the keys of ordered keyspaces.
  ///
  /// - Returns: one change for each key, by keyspace and then by key; and for each operation the
  ///   number of its change, nil for an operation on another keyspace.
  private mutating func orderedChanges(
    _ batch: BatchPieces
  ) throws(StoreError) -> (changes: [OrderedChange], numbers: [Int?]) {
    var sorted = (0..<batch.count).filter { live.trees.isOrdered(batch.operations[$0].keyspace) }
    func precedes(_ one: Int, _ other: Int) -> Bool {
      let (left, right) = (batch.operations[one].keyspace, batch.operations[other].keyspace)
      if left != right { return left < right }
      let (key, otherKey) = (TreeKey(batch.key(one)), TreeKey(batch.key(other)))
      if key.precedes(otherKey) { return true }
      return one < other && !otherKey.precedes(key)
    }
    // Most batches come in order.
    let isSorted = zip(sorted, sorted.dropFirst()).allSatisfy(precedes)
    if !isSorted { sorted.sort(by: precedes) }
    var changes: [OrderedChange] = []
    changes.reserveCapacity(sorted.count)
    var numbers = [Int?](repeating: nil, count: batch.count)
    for index in sorted {
      if let last = changes.last, batch.areAboutTheSame(last.first, index) {
        numbers[index] = changes.count - 1
        continue
      }
      let keyspace = batch.operations[index].keyspace
      let (place, existing) = try orderedPlace(batch.key(index), keyspace)
      numbers[index] = changes.count
      changes.append(
        OrderedChange(keyspace: keyspace, place: place, first: index, current: existing))
    }
    return (changes, numbers)
  }

  /// Makes one operation on an ordered keyspace visible in the figures and in the change of its
  /// key.
  private mutating func apply(
    _ index: Int, of batch: BatchPieces, _ place: (address: Address, length: Int),
    _ hash: UInt64, after first: UInt64, _ change: inout OrderedChange
  ) {
    let operation = batch.operations[index]
    let (effect, sequence) = (operation.kind.effect, first + UInt64(index) + 1)
    log.countRecord(sequence, effect, length: place.length, in: place.address.slot)
    live.change(
      effect, at: place.address, length: place.length, sequence: sequence, hash: hash,
      keyspace: operation.keyspace, over: change.current, in: log.table)
    change.current =
      effect == .sets
      ? ReplacedRecord(address: place.address, length: place.length, sequence: sequence) : nil
  }

  /// Builds the index from the log after the trees of a forged checkpoint could not take a batch
  /// that is in the log.
  private mutating func rebuildForgedIndex() throws(StoreError) {
    do throws(StoreError) { try replaceDamagedIndex() } catch {
      pipeline.poison(error)
      throw error
    }
  }

  /// Changes the trees to what the operations have made of their keys.
  ///
  /// - Returns: as ``TreeIndex/apply(_:in:_:)``.
  private mutating func applyToTrees(_ changes: [OrderedChange], _ batch: BatchPieces) -> Bool {
    var start = 0
    while start < changes.count {
      let keyspace = changes[start].keyspace
      let end = changes[start...].firstIndex { $0.keyspace != keyspace } ?? changes.count
      var edits: [TreeEdit] = []
      edits.reserveCapacity(end - start)
      for change in changes[start..<end]
      where change.current != nil || change.place.existing != nil {
        edits.append(
          TreeEdit(
            key: TreeKey(batch.key(change.first)), place: change.place,
            address: change.current?.address))
      }
      guard live.trees.apply(edits, in: keyspace, log.table) else { return false }
      start = end
    }
    return true
  }
}
