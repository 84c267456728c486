import MoraineFormat

// Verification of the indexes of repositories. It needs no models: the row of a record says which
// entries the record has.
extension EngineState {
  /// The most problems that are reported for one keyspace.
  private static let problemLimit = 16

  /// Compares the indexes with their rows, both ways, and the rows with the records of the indexed
  /// keyspaces.
  ///
  /// - Complexity: O(entries + records of indexed keyspaces), memory for the problems only.
  mutating func indexProblems() -> [StoreError] {
    var problems: [StoreError] = []
    for system in keyspaces.systemIDs.sorted() {
      guard let name = keyspaces.name(of: system),
        let indexed = IndexLayout.indexedName(of: name)
      else { continue }
      var audit = IndexAudit(system: system, indexed: keyspaces.id(of: indexed), name: indexed)
      do throws(StoreError) { try run(&audit) } catch { audit.problems.append(error) }
      problems += audit.problems.prefix(Self.problemLimit)
    }
    return problems
  }

  private mutating func run(_ audit: inout IndexAudit) throws(StoreError) {
    guard live.isOrdered(audit.system) else {
      throw .indexDamaged("the indexes of the keyspace '\(audit.name)' are not ordered", nil)
    }
    audit.catalog = try IndexCatalog(
      try stored(IndexLayout.catalogKey, audit.system)?.value, of: audit.name)
    let now = self.now
    try forEachEntry(of: audit.system, IndexLayout.allRows, now) {
      (entry, expiry, engine) throws(StoreError) in
      try engine.checkRow(entry, expiry, &audit)
    }
    try forEachEntry(of: audit.system, IndexLayout.allEntries, now) {
      (entry, _, engine) throws(StoreError) in
      try engine.checkEntry(entry, &audit)
    }
    guard let indexed = audit.indexed else { return }
    var walk = LogWalk(keyspace: indexed, slots: log.table.readingOrder, now: now)
    while let entry = try next(&walk) { try checkRecord(entry.key, &audit) }
  }

  /// Calls the body with the entries of a range that have not expired, and their expiries.
  private mutating func forEachEntry(
    of keyspace: UInt16, _ range: KeyRange, _ now: UInt64,
    _ body: (Store.Entry, UInt64, inout EngineState) throws(StoreError) -> Void
  ) throws(StoreError) {
    guard var walk = try walk(keyspace, range, .ascending, limit: .max) else { return }
    while let address = walk.next(live.trees) {
      let record = try log.table.entryRecord(at: address, of: keyspace)
      if record.hasExpired(at: now) { continue }
      let expiry = record.expiryMilliseconds ?? 0
      try body(try log.table.entry(of: record, at: address), expiry, &self)
    }
  }

  /// Returns the value of a key and its expiry, whether it has expired or not.
  private mutating func stored(
    _ key: Key, _ keyspace: UInt16
  ) throws(StoreError) -> (value: [UInt8], expiry: UInt64)? {
    try key.bytes.withBytes { (bytes) throws(StoreError) in
      guard let found = try found(bytes, keyspace) else { return nil }
      let expiry = found.record.expiryMilliseconds ?? 0
      return (try log.table.value(of: found.record, at: found.address), expiry)
    }
  }

  /// Checks that the record of a row exists, with each entry that the row lists.
  private mutating func checkRow(
    _ row: Store.Entry, _ expiry: UInt64, _ audit: inout IndexAudit
  ) throws(StoreError) {
    let key = IndexLayout.indexedKey(of: row.key)
    let stored = try StoredIndexRow(row.value, of: key)
    guard stored.expiry == expiry else {
      return audit.note("the index row of '\(key)' has another expiry than it says")
    }
    guard let indexed = audit.indexed, let record = try self.stored(key, indexed),
      record.expiry == expiry
    else {
      return audit.note(
        "the index row of '\(key)' belongs to no record, or to one with another "
          + "expiry")
    }
    // While an index is being built, a row may list entries that were removed with it before.
    for entry in stored.row.entries(for: key) where audit.ready.contains(entry.index) {
      guard let found = try self.stored(entry.recordKey, audit.system),
        found.value == entry.recordValue, found.expiry == expiry
      else {
        return audit.note("the index '\(audit.indexName(entry.index))' lacks an entry of '\(key)'")
      }
    }
  }

  /// Checks that the row of the record that an entry leads to lists the entry.
  private mutating func checkEntry(
    _ record: Store.Entry, _ audit: inout IndexAudit
  ) throws(StoreError) {
    let entry = try SecondaryIndexEntry(record)
    // The entries of a dropped index wait for their removal.
    guard audit.isLive(entry.index) else { return }
    guard let bytes = try stored(IndexLayout.rowKey(of: entry.key), audit.system)?.value,
      try StoredIndexRow(bytes, of: entry.key).row.entries(for: entry.key).contains(entry)
    else {
      return audit.note(
        "the index '\(audit.indexName(entry.index))' has an entry of '\(entry.key)' that its row "
          + "does not list")
    }
  }

  /// Checks that a record has a part in its row for each index that is ready, or a mark.
  private mutating func checkRecord(
    _ key: Key, _ audit: inout IndexAudit
  ) throws(StoreError) {
    let ready = audit.ready
    if ready.isEmpty { return }
    if let bytes = try stored(IndexLayout.rowKey(of: key), audit.system)?.value,
      try StoredIndexRow(bytes, of: key).row.covers(ready)
    {
      return
    }
    if try stored(IndexLayout.pendingKey(of: key), audit.system) != nil { return }
    audit.note("the record '\(key)' has no entries in an index, and no mark that says so")
  }
}

/// The verification of the indexes of one keyspace.
private struct IndexAudit {
  let system: UInt16
  /// Nil when the indexed keyspace does not exist.
  let indexed: UInt16?
  let name: String
  var catalog = IndexCatalog()
  var problems: [StoreError] = []

  init(system: UInt16, indexed: UInt16?, name: String) {
    (self.system, self.indexed, self.name) = (system, indexed, name)
  }

  /// The numbers of the indexes that queries use.
  var ready: [UInt64] { catalog.ready }

  func isLive(_ index: UInt64) -> Bool {
    catalog[index].map { $0.state != .dropped } ?? false
  }

  func indexName(_ index: UInt64) -> String { catalog[index]?.name ?? "\(index)" }

  mutating func note(_ what: String) {
    problems.append(
      StoreError(
        .corrupted,
        "\(what), in the keyspace '\(name)'; remove the keyspace's indexes and add them again, or "
          + "restore the store from a backup"))
  }
}
