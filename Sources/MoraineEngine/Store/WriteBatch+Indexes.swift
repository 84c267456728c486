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
  /// - Parameter sequence: the number of the operation that has set the record's value.
  /// - Returns: whether the record is still that of the operation; otherwise nothing is set.
  /// - Throws: the errors of ``set(_:forKey:in:expiring:row:)``.
  package mutating func setRow(
    _ row: IndexRow, ofKey key: Key, in keyspace: Keyspace, if sequence: SequenceNumber
  ) throws(StoreError) -> Bool {
    let place = place(key, keyspace)
    guard let indexes = indexKeyspace(of: place.keyspace),
      try holds(.sequence(sequence), place), let expiry = try recordedExpiry(of: place)
    else { return false }
    // An index that was removed since the caller has read the record keeps no entry that the row
    // does not list: it may be added again.
    let row = row.restricted(to: try catalog(in: indexes).live)
    let known = Set(row.parts.map(\.index))
    let old = try storedRow(of: key, in: indexes)?.row ?? IndexRow([])
    let others = IndexRow(old.parts.filter { !known.contains($0.index) })
    let kept = Set(row.entries(for: key) + others.entries(for: key))
    for entry in old.entries(for: key) where !kept.contains(entry) {
      try removeEntry(entry, in: indexes)
    }
    // Entries that the old row lists may be missing, so they are written again.
    try setRow(StoredIndexRow(others, expiry: expiry), of: key, in: indexes)
    try updateEntries(
      of: place, with: IndexRow(row.parts + others.parts), expiry: expiry, in: indexes)
    return true
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
  mutating func updateEntries(
    of place: BatchOperations.Place, with row: IndexRow?, expiry: UInt64, in indexes: UInt16
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
      try checkUnique(entry, place, catalog, in: indexes)
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

  /// Checks that no other record has a value of a unique index. A record that has the value and has
  /// expired is removed.
  ///
  /// - Throws: `.notUnique`, with both keys.
  private mutating func checkUnique(
    _ entry: SecondaryIndexEntry, _ place: BatchOperations.Place, _ catalog: IndexCatalog,
    in indexes: UInt16
  ) throws(StoreError) {
    guard let stored = try storedValue(systemPlace(entry.recordKey, indexes)),
      stored != entry.recordValue
    else { return }
    let holder = BatchOperations.Place(
      keyspace: place.keyspace, key: Key([UInt8](stored.dropFirst())))
    if try contains(holder) {
      // The entry of a record that had expired may have outlived it.
      guard try contains(systemPlace(entry.recordKey, indexes)) else { return }
      throw StoreError(
        StoreError.Duplicate(
          index: catalog[entry.index]?.name ?? "", key: place.key, holder: holder.key))
    }
    try removeEntries(of: holder, in: indexes)
    try removeIfStored(holder)
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
