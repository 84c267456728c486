import MoraineFormat
import Synchronization

/// The writer's part of the live reads: the records since the last time that the index was frozen
/// for the readers.
///
/// The readers of a frozen index also look at ``RecentRecords``. A record that cannot be added
/// there makes them stale: then the index is frozen again before the write returns. All records of
/// `records` lie in one segment, the active one, because the readers know the segments that existed
/// when the index was frozen.
struct RecentWriter {
  /// Nil while the store has no reader.
  private(set) var records: RecentRecords?
  /// Whether the readers lack a record.
  private(set) var isStale = false
  private var slot = -1
  /// The salt of the active segment, which no other file has. A segment that is abandoned returns
  /// its slot and its number.
  private var salt: UInt64 = 0
  /// End of the part of the active segment that the readers can see.
  private var end = 0
  private var keyspaces: Set<UInt16> = []

  /// Records that the readers lack a change.
  mutating func markStale() { isStale = isStale || records != nil }

  /// Asks for another freezing of the index after one that failed.
  mutating func requestRefresh() { isStale = true }

  mutating func stop() { self = RecentWriter() }

  /// Begins to add records for readers of the index as it is now.
  ///
  /// - Parameter end: end of the part of the active segment that the readers can see.
  fileprivate mutating func begin(
    _ records: RecentRecords, _ active: (slot: Int, salt: UInt64)?, end: Int,
    _ keyspaces: Set<UInt16>
  ) {
    self.records = records
    self.end = end
    self.keyspaces = keyspaces
    isStale = false
    (slot, salt) = active ?? (-1, 0)
  }

  fileprivate func accepts(
    _ address: Address, _ length: Int, salt: UInt64, _ keyspace: UInt16
  ) -> Bool {
    address.slot == slot && salt == self.salt && address.offset + length <= end
      && (keyspace == 0 || keyspaces.contains(keyspace))
  }
}

extension EngineState {
  /// Returns an empty list of records for the readers of the index, which was frozen now.
  ///
  /// - Parameters:
  ///   - least: the least number of keys for which there is room.
  ///   - end: end of the part of a segment that the readers can see.
  mutating func beginRecentRecords(
    atLeast least: Int, endOf end: (Int) -> Int
  ) -> RecentRecords {
    let slot = log.position.slot
    // Each freezing makes the writer copy the pages that change next: larger indexes have more.
    let records = RecentRecords(
      limit: max(least, live.count / 32), end: slot >= 0 ? log.table[slot].end : 0)
    recent.begin(
      records, slot >= 0 ? (slot, log.table.infos[slot].salt) : nil,
      end: slot >= 0 ? end(slot) : 0, Set(keyspaces.numbers.values))
    return records
  }

  /// Shows a record to the readers. The record is in the log, and the index names it.
  private func addRecent(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, _ hash: UInt64, _ address: Address,
    length: Int, to records: RecentRecords
  ) -> Bool {
    guard recent.accepts(address, length, salt: log.table.infos[address.slot].salt, keyspace) else {
      return false
    }
    // Relaxed: a reader loads the end after it has acquired the address.
    records.end.store(address.offset + aligned(length), ordering: .relaxed)
    return records.add(hash, address) { known in
      do throws(StoreError) {
        let record = try log.table.record(at: known)
        return record.header.keyspace == keyspace && record.key.elementsEqualFast(key)
      } catch {
        // The readers get a new index, which names no damaged record that was replaced.
        return false
      }
    }
  }

  /// Shows a record to the readers, if the store has any.
  @inline(__always)
  mutating func publishRecent(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, _ hash: UInt64, _ address: Address,
    length: Int
  ) {
    if recent.records != nil {
      publishRecentSlowly(key, keyspace, hash, address, length: length)
    }
  }

  @inline(never)
  private mutating func publishRecentSlowly(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, _ hash: UInt64, _ address: Address,
    length: Int
  ) {
    guard let records = recent.records, !recent.isStale else { return }
    if !addRecent(key, keyspace, hash, address, length: length, to: records) {
      recent.markStale()
    }
  }

  /// Shows the records of a batch to the readers, if the store has any: all at the same time.
  mutating func publishRecent(
    _ batch: BatchPieces, _ places: [(address: Address, length: Int)], _ hashes: [UInt64]
  ) {
    guard let records = recent.records, !recent.isStale else { return }
    guard records.count + batch.count <= records.limit else { return recent.markStale() }
    records.beginBatch()
    for index in 0..<batch.count {
      let isAdded = addRecent(
        batch.key(index), batch.operations[index].keyspace, hashes[index], places[index].address,
        length: places[index].length, to: records)
      // The batch stays open: no reader may see the records that were added. The readers wait for
      // the next index.
      guard isAdded else { return recent.markStale() }
    }
    records.endBatch()
  }

  /// Notifies all watchers that another process may have changed anything.
  mutating func recordForeignCommits() {
    keyspaces.recordCommitToAll()
    recent.markStale()
  }
}
