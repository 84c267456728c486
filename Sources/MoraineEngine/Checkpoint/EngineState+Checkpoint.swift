import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// Checks what an operation on a hash touches of an index that was loaded, and brings a few pages
  /// home that snapshots had. Pointers to entries are no longer valid.
  @inline(__always)
  mutating func admit(_ hash: UInt64) throws(StoreError) {
    if index.needsCare { try careAndAdmit(hash) }
  }

  private mutating func careAndAdmit(_ hash: UInt64) throws(StoreError) {
    if index.isLazy, !index.admit(hash) { try rebuildIndex() }
    index.tend()
  }

  /// Checks the whole index at once: for a snapshot, which many threads read without the actor, and
  /// for work that goes through the whole log on the actor and takes longer than this.
  ///
  /// - Complexity: O(index), the first time.
  mutating func admitAll() throws(StoreError) {
    if !index.admitAll() { try rebuildIndex() }
  }

  /// Checks a part of the index that takes less than a millisecond.
  ///
  /// - Returns: whether there is more to check.
  mutating func admitNext() throws(StoreError) -> Bool {
    if !index.admitNext() { try rebuildIndex() }
    return index.isLazy
  }

  /// The index and what it covers, as they are now. No compaction is under way. The caller has
  /// checked the index with ``admitNext()`` before.
  mutating func checkpointImage() throws(StoreError) -> CheckpointImage {
    try admitAll()
    var header = CheckpointHeader(storeID: manifest.storeID)
    header.epoch = manifest.epoch
    header.lastSequence = lastSequence
    header.digest = digest
    header.segments = table.order.map { slot in
      // Of the active segment, what a sync of all that was published makes durable.
      let end =
        slot == active?.slot
        ? min(table[slot].end, Int(pipeline.appendedOffset.load(ordering: .relaxed)))
        : table[slot].end
      return table[slot].covered(table.infos[slot], slot: slot, end: end)
    }
    if let active, let place = header.segments.firstIndex(where: { $0.slot == active.slot }) {
      let end = Int(clamping: header.segments[place].endOffset)
      header.segments[place].tailChecksum = try tailChecksum(active, end)
    }
    header.keyspaces = keyspaces.checkpointed
    return CheckpointImage(header, of: &index)
  }

  /// The last bytes that a checkpoint covers of a segment that may have lost them when it is
  /// opened.
  private func tailChecksum(
    _ active: ActiveSegment, _ end: Int
  ) throws(StoreError) -> UInt32 {
    let source = ByteSource(
      file: active.file, name: table.fileName(active.slot), length: end,
      mapping: active.mapping)
    return try source.tailChecksum(from: table[active.slot].firstOffset, to: end)
  }

  /// The name that a checkpoint of this moment has: by the last segment it covers.
  func checkpointName() -> String {
    CheckpointFile.name(
      table.order.last.map { table.infos[$0].number } ?? SegmentNumber(rawValue: 1))
  }

  /// Makes the index anew from the log: the checkpoint that it was loaded from is damaged.
  ///
  /// - Complexity: O(bytes of the log), on the calling thread: rare enough.
  mutating func rebuildIndex() throws(StoreError) {
    var fresh = HashIndex()
    swap(&fresh, &index)
    do throws(StoreError) {
      for slot in table.readingOrder { try reindex(slot) }
      guard index.count == fresh.count else {
        throw .indexDamaged(
          "\(index.count) keys in the log, but \(fresh.count) in the checkpoint",
          checkpointNames.first)
      }
      try recountMoving()
    } catch {
      swap(&fresh, &index)
      throw error
    }
  }

  /// Makes a sparse index anew, as small as what it holds allows: it grows with the keys, and does
  /// not shrink with them by itself.
  ///
  /// - Throws: `.corrupted`, `.io` when a key could not be read; the index is as it was then.
  /// - Complexity: O(index), and a look at the record of each key that is left.
  mutating func shrinkIndex() throws(StoreError) {
    let slots = index.buckets.count * HashIndex.slotsPerBucket
    guard index.buckets.count > 1 << (HashIndex.initialLevel + 1), index.count < slots / 16 else {
      return
    }
    try admitAll()
    var fresh = HashIndex()
    for address in index.addresses() {
      fresh.insert(try table.hashOfRecord(at: address), address, rehashing: table)
    }
    index = fresh
  }

  /// Counts what is live in segments that compaction is moving records between: an index that was
  /// made from the log names the copies, also those that `install` has not counted yet.
  private mutating func recountMoving() throws(StoreError) {
    let slots = Set(table.movingSlots)
    if slots.isEmpty { return }
    var counts: [Int: (liveBytes: UInt64, digest: StateDigest)] = [:]
    for address in index.addresses() where slots.contains(address.slot) {
      let hash = try table.hashOfRecord(at: address)
      let header = try table.record(at: address).header
      var count = counts[address.slot] ?? (0, StateDigest())
      count.liveBytes &+= UInt64(aligned(header.length))
      count.digest.add(hash: hash, sequence: header.sequence)
      counts[address.slot] = count
    }
    for slot in slots {
      let count = counts[slot] ?? (0, StateDigest())
      liveBytes = liveBytes &- table[slot].liveBytes &+ count.liveBytes
      (table[slot].liveBytes, table[slot].digest) = count
    }
    // A copy may be longer or shorter than its record; which of them were counted is not known.
    if !keyspaces.isEmpty { keyspaces.isCounted = false }
  }

  private mutating func reindex(_ slot: Int) throws(StoreError) {
    var offset = table[slot].firstOffset
    while offset < table[slot].end {
      let address = Address(slot: slot, offset: offset)
      let record = try table.record(at: address)
      try table.verify(record, at: address)
      offset += aligned(record.header.length)
      guard record.header.kind.isOperation else { continue }
      let (header, key) = (record.header, [UInt8](record.key))
      let hash = key.withBytes { self.hash($0, header.keyspace) }
      let found = try key.withBytes { (bytes) throws(StoreError) in
        try table.find(bytes, header.keyspace, hash: hash, in: index)?.slot
      }
      switch (found, header.kind) {
      case (let found?, .put): found.pointee = found.pointee & ~Address.mask | address.rawValue
      case (nil, .put): index.insert(hash, address, rehashing: table)
      case (let found?, _): index.remove(found)
      case (nil, _): break
      }
    }
  }
}
