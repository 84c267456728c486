public import MoraineFormat

extension Store {
  /// The reads and writes of one attempt of ``Store/transaction(retries:durability:_:)``.
  ///
  /// All reads show the store at the moment at which the attempt began, with the writes that the
  /// transaction itself has made. Writes are applied together when the body has returned, and only
  /// if no other writer has changed what the transaction has read.
  ///
  /// A transaction belongs to the call of its body: it must not be used after the body has
  /// returned.
  public final class Transaction {
    private let store: Store
    fileprivate var contents: TransactionContents
    private var isOpen = true
    /// A keyspace that must become ordered before the body can read a range of it.
    fileprivate(set) var keyspaceToOrder: Keyspace?
    /// Whether the body needs an operation that it does not see; see ``require(_:in:)``.
    private(set) var lacksOwnWrite = false

    init(_ store: Store, _ start: TransactionStart) {
      self.store = store
      contents = TransactionContents(start)
    }

    /// Ends the attempt.
    ///
    /// - Returns: what it has read and written.
    func end() -> TransactionContents {
      isOpen = false
      return contents
    }

    /// Ends the attempt by an error when it began before an operation that the program has made for
    /// the transaction. The body then runs again, also after it has caught the error.
    ///
    /// - Throws: `.conflict`.
    package func require(
      _ sequence: SequenceNumber, in keyspace: Keyspace
    ) throws(StoreError) {
      // A number of another store would never be seen.
      _ = name(keyspace)
      if contents.snapshot.sequence < sequence { lacksOwnWrite = true }
      try checkSight()
    }

    /// Throws the error of ``require(_:in:)``, also after the body has caught it.
    func checkSight() throws(StoreError) {
      guard lacksOwnWrite else { return }
      throw StoreError(
        .conflict, "the attempt of the transaction began before its models were saved")
    }

    /// The sequence number of the last operation that the transaction sees.
    public var sequence: SequenceNumber { contents.snapshot.sequence }

    fileprivate func name(_ keyspace: Keyspace?) -> String {
      precondition(isOpen, "a transaction is used after its body has returned")
      guard let keyspace else { return "" }
      precondition(keyspace.store === store, "a transaction uses keyspaces of its own store only")
      return keyspace.name
    }
  }
}

extension Store.Transaction {
  /// Returns the value of a key, or nil when the key does not exist.
  ///
  /// - Parameters:
  ///   - key: the key.
  ///   - keyspace: a keyspace of the store; nil for the unnamed one.
  ///   - isTracked: whether a change of the key by another writer is a conflict.
  /// - Throws: the errors of ``Store/Snapshot/value(forKey:)``.
  /// - Complexity: O(key + value).
  public func value(
    forKey key: Key, in keyspace: Keyspace? = nil, isTracked: Bool = true
  ) throws(StoreError) -> [UInt8]? {
    let name = name(keyspace)
    if let written = contents[name].writes[key] { return written.value }
    let found = try contents[name].snapshot.versionedValue(forKey: key)
    if isTracked { contents[name].reads[key] = found?.sequence ?? SequenceNumber.none }
    return found?.value
  }

  /// Returns whether a key exists. See ``value(forKey:in:isTracked:)``.
  public func contains(
    _ key: Key, in keyspace: Keyspace? = nil, isTracked: Bool = true
  ) throws(StoreError) -> Bool {
    try value(forKey: key, in: keyspace, isTracked: isTracked) != nil
  }

  /// Stores a value under a key. A write alone conflicts with no other writer.
  ///
  /// - Parameters:
  ///   - value: the value.
  ///   - key: the key.
  ///   - keyspace: a keyspace of the store; nil for the unnamed one.
  ///   - expiry: the time at which the entry ends, counted from the commit; nil for the default of
  ///     the keyspace. The transaction itself sees its entry until it is committed.
  /// - Throws: `.keyTooLarge`, `.valueTooLarge`.
  public func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace? = nil, expiring expiry: Expiry? = nil
  ) throws(StoreError) {
    let name = name(keyspace)
    let isOrdered = keyspace?.wantsOrder == true || contents[name].snapshot.isOrdered
    try key.bytes.withBytes { (keyBytes) throws(StoreError) in
      if isOrdered { try EngineState.checkOrdered(keyBytes) }
      try value.withBytes { (bytes) throws(StoreError) in
        try EngineState.checkLimits(keyBytes, bytes)
      }
    }
    let wanted = expiry ?? keyspace?.defaultExpiry ?? .never
    contents.write(value, key, name, keyspace, wanted)
  }

  /// Sets a value, and the values that its record has in the indexes of the keyspace. See
  /// ``set(_:forKey:in:expiring:)``.
  package func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace, row: IndexRow?
  ) throws(StoreError) {
    try set(value, forKey: key, in: keyspace)
    contents.write(value, key, keyspace.name, keyspace, keyspace.defaultExpiry, row)
  }

  /// Removes a key and its value, if the key exists when the transaction is committed.
  ///
  /// - Throws: `.keyTooLarge`.
  public func removeValue(forKey key: Key, in keyspace: Keyspace? = nil) throws(StoreError) {
    let name = name(keyspace)
    try key.bytes.withBytes { (keyBytes) throws(StoreError) in
      try EngineState.checkLimits(keyBytes, UnsafeRawBufferPointer(start: nil, count: 0))
    }
    contents.write(nil, key, name, keyspace)
  }
}

extension Store.Transaction {
  /// Returns entries of a range of an ordered keyspace, in the order of their keys. An entry that
  /// the transaction itself has written has the sequence number `.none`.
  ///
  /// - Parameters:
  ///   - range: the range of keys; by default all keys.
  ///   - keyspace: an ordered keyspace of the store.
  ///   - order: ascending begins at the least key of the range, descending at the greatest.
  ///   - limit: the most entries that are returned, at least 1.
  ///   - isTracked: whether it is a conflict when another writer inserts, changes or removes a key
  ///     of the range: of the part up to the last entry, where `limit` ends the reading.
  /// - Throws: `.invalidArgument` when the keyspace is not ordered; the errors of
  ///   ``Store/Snapshot/value(forKey:)``.
  /// - Complexity: O(log n + entries). To find conflicts later, one comparison for about 300
  ///   entries that no writer has changed.
  public func entries(
    in range: some KeyRangeConvertible = .all, of keyspace: Keyspace,
    order: KeyOrder = .ascending, limit: Int = .max, isTracked: Bool = true
  ) throws(StoreError) -> [Store.Entry] {
    precondition(limit > 0, "at least one entry is read")
    let (name, range) = (name(keyspace), range.keyRange)
    let own = contents[name].ownWrites(in: range, order)
    let (wanted, isAll) = limit.addingReportingOverflow(own.count)
    let stored = try reading(keyspace) { (snapshot) throws(StoreError) in
      try snapshot.entries(range, order, limit: isAll ? .max : wanted)
    }
    let entries = Array(Self.merge(stored, own, order).prefix(limit))
    if isTracked {
      let isWhole = entries.count < limit
      contents[name].ranges.append(isWhole ? range : range.part(before: entries.last, order))
    }
    return entries
  }

  /// Returns the first entry of a range of an ordered keyspace. See
  /// ``entries(in:of:order:limit:isTracked:)``.
  public func first(
    in range: some KeyRangeConvertible = .all, of keyspace: Keyspace, isTracked: Bool = true
  ) throws(StoreError) -> Store.Entry? {
    try entries(in: range, of: keyspace, limit: 1, isTracked: isTracked).first
  }

  /// Returns the last entry of a range of an ordered keyspace. See
  /// ``entries(in:of:order:limit:isTracked:)``.
  public func last(
    in range: some KeyRangeConvertible = .all, of keyspace: Keyspace, isTracked: Bool = true
  ) throws(StoreError) -> Store.Entry? {
    try entries(in: range, of: keyspace, order: .descending, limit: 1, isTracked: isTracked).first
  }

  /// Returns the number of keys in a range of an ordered keyspace.
  ///
  /// - Parameters:
  ///   - range: the range of keys; by default all keys.
  ///   - keyspace: an ordered keyspace of the store.
  ///   - isTracked: whether it is a conflict when another writer inserts, changes or removes a key
  ///     of the range.
  /// - Throws: the errors of ``entries(in:of:order:limit:isTracked:)``.
  /// - Complexity: O(log n + keys that the transaction has written).
  public func count(
    in range: some KeyRangeConvertible = .all, of keyspace: Keyspace, isTracked: Bool = true
  ) throws(StoreError) -> Int {
    let (name, range) = (name(keyspace), range.keyRange)
    var count = try reading(keyspace) { (snapshot) throws(StoreError) in
      try snapshot.count(in: range)
    }
    let snapshot = contents[name].snapshot
    for (key, value) in contents[name].ownWrites(in: range, .ascending) {
      count += (value == nil ? 0 : 1) - (try snapshot.contains(key) ? 1 : 0)
    }
    if isTracked { contents[name].ranges.append(range) }
    return count
  }

  /// Removes the keys of a range of an ordered keyspace.
  ///
  /// - Returns: the number of keys. It is a conflict when another writer changes the range.
  /// - Throws: the errors of ``entries(in:of:order:limit:isTracked:)``.
  @discardableResult
  public func removeAll(
    in range: some KeyRangeConvertible, of keyspace: Keyspace
  ) throws(StoreError) -> Int {
    let entries = try entries(in: range, of: keyspace)
    for entry in entries { try removeValue(forKey: entry.key, in: keyspace) }
    return entries.count
  }

  /// Returns all entries of a keyspace, ordered or not: those of the store in the order in which
  /// they were stored, and then those that the transaction has written.
  ///
  /// - Parameters:
  ///   - keyspace: a keyspace of the store; nil for the unnamed one.
  ///   - isTracked: whether it is a conflict when another writer inserts, changes or removes any
  ///     key of the keyspace.
  /// - Throws: the errors of ``Store/Snapshot/value(forKey:)``.
  /// - Complexity: O(bytes of the log). To find conflicts later, one look-up for each entry.
  public func allEntries(
    of keyspace: Keyspace? = nil, isTracked: Bool = true
  ) throws(StoreError) -> [Store.Entry] {
    let name = name(keyspace)
    let (stored, expired) = try contents[name].snapshot.allEntries()
    if isTracked {
      for entry in stored { contents[name].reads[entry.key] = entry.sequence }
      for key in expired { contents[name].reads[key] = SequenceNumber.none }
      contents[name].countAtBeginning = stored.count
    }
    let own = contents[name].writes
    return stored.filter { own[$0.key] == nil }
      + contents[name].writesInOrder.compactMap { key, value in
        value.map { Store.Entry(written: $0, key) }
      }
  }

  /// Calls the body with the snapshot of a keyspace. Notes a keyspace that is to be ordered first.
  private func reading<Value>(
    _ keyspace: Keyspace, _ body: (Store.Snapshot) throws(StoreError) -> Value
  ) throws(StoreError) -> Value {
    let snapshot = contents[keyspace.name].snapshot
    guard keyspace.wantsOrder || snapshot.isOrdered else {
      throw StoreError(
        .invalidArgument,
        "the keyspace '\(keyspace.name)' is not ordered; open it with orderedKeyspace(named:)")
    }
    do throws(StoreError) { return try body(snapshot) } catch {
      if error.code == .invalidArgument { keyspaceToOrder = keyspace }
      throw error
    }
  }

  /// Returns entries of the store as own writes leave them. Both are in the order of their keys.
  private static func merge(
    _ stored: [Store.Entry], _ own: [(key: Key, value: [UInt8]?)], _ order: KeyOrder
  ) -> [Store.Entry] {
    if own.isEmpty { return stored }
    var (result, next): ([Store.Entry], Int) = ([], 0)
    for entry in stored {
      while next < own.count, order.precedes(own[next].key, entry.key) {
        if let value = own[next].value { result.append(Store.Entry(written: value, own[next].key)) }
        next += 1
      }
      if next < own.count, own[next].key == entry.key { continue }
      result.append(entry)
    }
    for (key, value) in own[next...] {
      if let value { result.append(Store.Entry(written: value, key)) }
    }
    return result
  }
}

extension KeyOrder {
  fileprivate func precedes(_ one: Key, _ other: Key) -> Bool {
    self == .ascending ? one < other : one > other
  }
}

extension Store.Entry {
  /// Creates the entry of a key that a transaction has written.
  fileprivate init(written value: [UInt8], _ key: Key) {
    self.init(keyspace: 0, key: key, sequence: .none, value: value)
  }
}

extension KeyRange {
  /// Returns the part of the range that a reading has seen which ended with an entry.
  fileprivate func part(before last: Store.Entry?, _ order: KeyOrder) -> KeyRange {
    guard let last else { return self }
    return order == .ascending
      ? KeyRange(from: lowerBound, upTo: last.key.successor)
      : KeyRange(from: last.key, upTo: upperBound)
  }
}
