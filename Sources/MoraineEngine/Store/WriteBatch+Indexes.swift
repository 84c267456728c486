package import MoraineFormat

/// A put or a delete of one key.
package struct KeyspaceOperation: Sendable {
  package let key: Key
  /// The value; nil for a delete.
  package let value: [UInt8]?
  /// The values in the indexes of the keyspace; nil when the writer knows no index.
  package let row: IndexRow?
  /// The time at which the entry ends; nil for the time of the whole commit.
  package let expiry: Expiry?

  package init(key: Key, value: [UInt8]?, row: IndexRow? = nil, expiry: Expiry? = nil) {
    (self.key, self.value, self.row, self.expiry) = (key, value, row, expiry)
  }
}

// Every write to an indexed keyspace keeps the entries of its indexes, also the writes of programs
// that know nothing of the models. A write that has no values for an index leaves a mark, so that a
// program that knows the index finds the record.
extension WriteBatch {
  /// Sets a value, and the values that its record has in the indexes of the keyspace.
  ///
  /// - Parameter row: the record's values in the indexes that the caller knows; nil when it knows
  ///   none.
  /// - Throws: `.notUnique`; `.keyTooLarge`, `.valueTooLarge`; the errors of ``value(forKey:in:)``.
  ///   The batch is then unchanged.
  package mutating func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace, expiring expiry: Expiry,
    row: IndexRow?
  ) throws(StoreError) {
    try set(value, place(key, keyspace), expiry, row)
  }

  /// Sets the values that an existing record has in some indexes. Its values in other indexes stay.
  ///
  /// The record may have expired: it comes back when the clock was wrong. Then a value of a unique
  /// index is refused also when its holder has expired. A record that has not expired takes such a
  /// value, and the holder stays, without the value and with a mark.
  ///
  /// - Parameters:
  ///   - sequence: the number of the operation that has set the record's value.
  ///   - lacking: the indexes in which the record cannot be. It gets a mark for them.
  /// - Returns: whether the record is still that of the operation; otherwise nothing is set.
  /// - Throws: the errors of ``set(_:forKey:in:expiring:row:)``.
  package mutating func setRow(
    _ row: IndexRow, ofKey key: Key, in keyspace: Keyspace, if sequence: SequenceNumber,
    lacking: Set<UInt64> = []
  ) throws(StoreError) -> Bool {
    let place = place(key, keyspace)
    let isExpired = try !containsAtItsTime(place)
    guard let indexes = indexKeyspace(of: place.keyspace),
      try isExpired ? storedValue(place) != nil : holds(.sequence(sequence), place),
      let recorded = try recordedPut(of: place, keyspace.store), recorded.sequence == sequence
    else { return false }
    let expiry = recorded.expiry
    // An index that was removed since the caller has read the record keeps no entry that the row
    // does not list: it may be added again.
    let row = row.restricted(to: try catalog(in: indexes).live)
    let known = lacking.union(row.parts.map(\.index))
    let old = try storedRow(of: key, in: indexes)?.row ?? IndexRow([])
    let others = IndexRow(old.parts.filter { !known.contains($0.index) })
    let kept = Set(row.entries(for: key) + others.entries(for: key))
    for entry in old.entries(for: key) where !kept.contains(entry) {
      try removeEntry(entry, in: indexes)
    }
    // Entries that the old row lists may be missing, so they are written again.
    try setRow(StoredIndexRow(others, expiry: expiry), of: key, in: indexes)
    try updateEntries(
      of: place, with: IndexRow(row.parts + others.parts), expiry: expiry, in: indexes,
      expiredHolder: isExpired ? .keepsItsValue : .losesItsValue)
    return true
  }

  /// Returns the operation that has set a key in the store, also when the entry has expired. The
  /// operations of this batch do not count.
  private func recordedPut(
    of place: BatchOperations.Place, _ store: Store
  ) throws(StoreError) -> RecordedPut? {
    let name = name(of: place.keyspace)
    let answer: Result<RecordedPut?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownPut(forKey: place.key, in: name))
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Removes the entries that a record has, before a batch sets new values of several records: two
  /// records may exchange a value of a unique index.
  package mutating func removeEntries(
    ofKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) {
    let place = place(key, keyspace)
    guard let indexes = indexKeyspace(of: place.keyspace) else { return }
    guard let old = try storedRow(of: key, in: indexes) else { return }
    for entry in old.row.entries(for: key) { try removeEntry(entry, in: indexes) }
    // The row must not list entries that do not exist, or the next write would keep them.
    try setRow(StoredIndexRow(IndexRow([]), expiry: old.expiry), of: key, in: indexes)
  }

  /// Writes the entries of a record that is about to be set, and removes those of the record that
  /// it replaces.
  ///
  /// - Parameters:
  ///   - row: nil when the caller knows no index.
  ///   - expiry: milliseconds since 1970; 0 for a record that does not expire.
  ///   - indexes: the number, in this batch, of the keyspace of the indexes.
  ///   - expiredHolder: what becomes of an expired record that has one of the unique values.
  mutating func updateEntries(
    of place: BatchOperations.Place, with row: IndexRow?, expiry: UInt64, in indexes: UInt16,
    expiredHolder: ExpiredHolder = .isRemoved
  ) throws(StoreError) {
    let key = place.key
    let catalog = try catalog(in: indexes)
    let live = catalog.live
    guard key.bytes.count <= IndexLayout.keyLengthBytes else {
      if live.isEmpty { return }
      throw StoreError(
        .keyTooLarge,
        "the key has \(key.bytes.count) bytes; the limit is \(IndexLayout.keyLengthBytes) in a "
          + "keyspace with indexes")
    }
    let new = StoredIndexRow((row ?? IndexRow([])).restricted(to: live), expiry: expiry)
    let isComplete = new.row.covers(live)
    let old = try storedRow(of: key, in: indexes)
    // While an index is being built, a row may list entries that were removed with it before.
    let ready = catalog.ready
    if let old, isComplete, ready == live, old.expiry == expiry, old.row == new.row { return }
    let oldEntries = EntryList(old?.row.entries(for: key) ?? [])
    let newEntries = EntryList(new.row.entries(for: key))
    let isRenewed = old?.expiry != expiry
    let added = newEntries.entries.filter {
      isRenewed || !ready.contains($0.index) || !oldEntries.contains($0)
    }
    for entry in added where entry.isUnique {
      try checkUnique(entry, place, catalog, in: indexes, expiredHolder)
    }
    for entry in oldEntries.entries where !newEntries.contains(entry) {
      try removeEntry(entry, in: indexes)
    }
    for entry in added {
      put(systemPlace(entry.recordKey, indexes), entry.recordValue, expiry: expiry)
    }
    try setRow(new, of: key, in: indexes)
    let mark = systemPlace(IndexLayout.pendingKey(of: key), indexes)
    if !isComplete {
      put(mark, [], expiry: expiry)
    } else if old?.row.covers(live) != true {
      try removeIfStored(mark)
    }
  }

  /// Removes the entries, the row and the mark of a record that is about to be removed.
  mutating func removeEntries(
    of place: BatchOperations.Place, in indexes: UInt16
  ) throws(StoreError) {
    let key = place.key
    guard key.bytes.count <= IndexLayout.keyLengthBytes else { return }
    if let old = try storedRow(of: key, in: indexes) {
      for entry in old.row.entries(for: key) { try removeEntry(entry, in: indexes) }
    }
    try removeIfStored(systemPlace(IndexLayout.rowKey(of: key), indexes))
    try removeIfStored(systemPlace(IndexLayout.pendingKey(of: key), indexes))
  }

  /// Returns the list of the indexes that a system keyspace holds.
  ///
  /// - Throws: `.corrupted`, `.newerFormat`.
  package mutating func indexCatalog(
    in keyspace: Keyspace
  ) throws(StoreError) -> IndexCatalog {
    let bytes = try value(forKey: IndexLayout.catalogKey, in: keyspace)
    return try IndexCatalog(bytes, of: keyspace.name)
  }

  private mutating func catalog(in indexes: UInt16) throws(StoreError) -> IndexCatalog {
    try IndexCatalog(
      try storedValue(systemPlace(IndexLayout.catalogKey, indexes)), of: name(of: indexes))
  }

  private func systemPlace(_ key: Key, _ indexes: UInt16) -> BatchOperations.Place {
    BatchOperations.Place(keyspace: indexes, key: key)
  }

  private mutating func storedRow(
    of key: Key, in indexes: UInt16
  ) throws(StoreError) -> StoredIndexRow? {
    guard let bytes = try storedValue(systemPlace(IndexLayout.rowKey(of: key), indexes)) else {
      return nil
    }
    return try StoredIndexRow(bytes, of: key)
  }

  private mutating func setRow(
    _ row: StoredIndexRow, of key: Key, in indexes: UInt16
  ) throws(StoreError) {
    let place = systemPlace(IndexLayout.rowKey(of: key), indexes)
    if row.row.parts.isEmpty {
      try removeIfStored(place)
    } else {
      put(place, row.bytes, expiry: row.expiry)
    }
  }

  /// Removes an entry, unless another record has taken its place in a unique index.
  private mutating func removeEntry(
    _ entry: SecondaryIndexEntry, in indexes: UInt16
  ) throws(StoreError) {
    let place = systemPlace(entry.recordKey, indexes)
    // An entry of an index that is not unique names its record in its key.
    if entry.isUnique, try storedValue(place) != entry.recordValue { return }
    delete(place)
  }

  private mutating func removeIfStored(_ place: BatchOperations.Place) throws(StoreError) {
    if try storedValue(place) != nil { delete(place) }
  }

  /// Checks that no other record has a value of a unique index. Record and entry are looked at for
  /// one moment: a record that ended in between would stay, without its entry.
  ///
  /// - Parameter expiredHolder: what becomes of a record that has the value and has expired.
  /// - Throws: `.notUnique`, with both keys.
  private mutating func checkUnique(
    _ entry: SecondaryIndexEntry, _ place: BatchOperations.Place, _ catalog: IndexCatalog,
    in indexes: UInt16, _ expiredHolder: ExpiredHolder
  ) throws(StoreError) {
    guard let stored = try storedValue(systemPlace(entry.recordKey, indexes)),
      stored != entry.recordValue
    else { return }
    let holder = BatchOperations.Place(
      keyspace: place.keyspace, key: Key([UInt8](stored.dropFirst())))
    let duplicate = StoreError.Duplicate(
      index: catalog[entry.index]?.name ?? "", key: place.key, holder: holder.key)
    if expiredHolder == .keepsItsValue, try storedValue(holder) != nil {
      throw StoreError(duplicate)
    }
    if try containsAtItsTime(holder) {
      // The entry of a record that had expired may have outlived it.
      guard try containsAtItsTime(systemPlace(entry.recordKey, indexes)) else { return }
      throw StoreError(duplicate)
    }
    if expiredHolder == .losesItsValue, try storedValue(holder) != nil {
      return try removeValues(of: holder.key, inIndex: entry.index, indexes)
    }
    try removeEntries(of: holder, in: indexes)
    try removeIfStored(holder)
  }

  /// Removes the values that a record has in one index. The record gets a mark, so that a program
  /// looks at it again when it comes back.
  private mutating func removeValues(
    of key: Key, inIndex index: UInt64, _ indexes: UInt16
  ) throws(StoreError) {
    guard let old = try storedRow(of: key, in: indexes) else { return }
    for entry in old.row.entries(for: key) where entry.index == index {
      try removeEntry(entry, in: indexes)
    }
    let rest = IndexRow(old.row.parts.filter { $0.index != index })
    try setRow(StoredIndexRow(rest, expiry: old.expiry), of: key, in: indexes)
    put(systemPlace(IndexLayout.pendingKey(of: key), indexes), [], expiry: old.expiry)
  }
}

/// What becomes of a record that has expired, when another record wants a value that it has in a
/// unique index.
enum ExpiredHolder {
  /// The record is removed.
  case isRemoved
  /// The record stays, without its values in the index.
  case losesItsValue
  /// The record stays as it is, and the other one is refused.
  case keepsItsValue
}

// The deletion of records that have expired. A part of a record that stays alone would be wrong
// when the clock was wrong, and is corrected.
extension WriteBatch {
  /// Removes a record that has expired, with its entries, its row and its mark. If the record is
  /// itself such a part, and the record that it belongs to has expired too, all of that one goes.
  ///
  /// - Parameters:
  ///   - limit: the latest expiry of a record that is removed.
  ///   - reaped: the records that this function has removed in this batch.
  /// - Throws: the errors of reading.
  mutating func reap(
    _ key: Key, in keyspace: Keyspace, through limit: UInt64,
    _ reaped: inout Set<BatchOperations.Place>
  ) throws(StoreError) {
    let record = place(key, keyspace)
    guard let name = IndexLayout.indexedName(of: keyspace.name) else {
      return try reap(record, &reaped)
    }
    if let owner = try owner(of: record) {
      let place = place(owner, Keyspace(store: keyspace.store, name: name))
      let expiry = try reaped.contains(place) ? 0 : expiryIfIntact(of: place, keyspace.store)
      if expiry != 0, expiry <= limit { try reap(place, &reaped) }
    }
    // The record that it belongs to is gone, or does not list it.
    try removeIfStored(record)
  }

  private mutating func reap(
    _ place: BatchOperations.Place, _ reaped: inout Set<BatchOperations.Place>
  ) throws(StoreError) {
    guard reaped.insert(place).inserted else { return }
    if let indexes = indexKeyspace(of: place.keyspace) {
      do throws(StoreError) {
        try asOneStep { (batch) throws(StoreError) in
          try batch.removeEntries(of: place, in: indexes)
        }
      } catch {
        // A row that cannot be read does not keep the other records of the store from being
        // deleted.
        guard error.code == .corrupted || error.code == .newerFormat else { throw error }
      }
    }
    delete(place)
  }

  /// Returns the key of the record to which an entry, a row or a mark belongs; nil for a record
  /// that is none of these.
  private mutating func owner(of part: BatchOperations.Place) throws(StoreError) -> Key? {
    if IndexLayout.allRows.contains(part.key) || IndexLayout.allPending.contains(part.key) {
      return IndexLayout.indexedKey(of: part.key)
    }
    guard IndexLayout.allEntries.contains(part.key), let value = try storedValue(part) else {
      return nil
    }
    let record = Store.Entry(keyspace: 0, key: part.key, sequence: .none, value: value)
    do throws(StoreError) { return try SecondaryIndexEntry(record).key } catch { return nil }
  }

  /// Returns the expiry of a record of the store; 0 when the record does not expire, does not
  /// exist or is damaged.
  private func expiryIfIntact(
    of place: BatchOperations.Place, _ store: Store
  ) throws(StoreError) -> UInt64 {
    do throws(StoreError) { return try recordedPut(of: place, store)?.expiry ?? 0 } catch {
      guard error.code == .corrupted else { throw error }
      return 0
    }
  }
}

/// The entries of one record. Few of them are searched one after the other: hashing them would cost
/// more.
private struct EntryList {
  let entries: [SecondaryIndexEntry]
  /// Nil for few entries.
  private let set: Set<SecondaryIndexEntry>?

  init(_ entries: [SecondaryIndexEntry]) {
    self.entries = entries
    set = entries.count > 16 ? Set(entries) : nil
  }

  func contains(_ entry: SecondaryIndexEntry) -> Bool {
    set?.contains(entry) ?? entries.contains(entry)
  }
}
