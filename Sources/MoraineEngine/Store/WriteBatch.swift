/// Operations that will be applied together. A batch exists only inside
/// ``Store/write(durability:_:)``.
public struct WriteBatch: ~Copyable {
  private let store: Store
  private var operations = BatchOperations()
  /// The keyspaces that the batch writes to. An operation refers to a keyspace by its index here.
  /// The first one is the unnamed keyspace.
  private var keyspaces = [KeyspaceRequest(name: "", isOrdered: false)]
  /// Index of each key's last operation. Nil until a read needs it among many operations.
  private var latest: [BatchOperations.Place: Int]?
  /// The time by which entries expire for the whole batch, in milliseconds since 1970. Nil until an
  /// entry that expires, or a check of a unique value, needs it.
  private var time: UInt64?
  /// The time at which the reads began that the next operation depends on, in milliseconds since
  /// 1970.
  var beginning: UInt64
  /// The keyspace of the indexes of each keyspace, both by their index in `keyspaces`. Empty in a
  /// store without indexes.
  private var indexKeyspaces: [UInt16: UInt16] = [:]
  /// Whether the store has indexes.
  private let hasIndexes: Bool

  /// - Parameters:
  ///   - hasIndexes: whether the store has indexes now, while no other writer writes.
  ///   - beginning: the time at which the reads began that the batch depends on, in milliseconds
  ///     since 1970; nil for now.
  init(store: Store, hasIndexes: Bool, reading beginning: UInt64? = nil) {
    self.store = store
    self.hasIndexes = hasIndexes
    self.beginning = beginning ?? store.observers.clock.now()
    if hasIndexes { addIndexKeyspace(of: 0) }
  }

  /// Number of operations so far. All operations on one key count.
  public var count: Int { operations.count }

  /// - Throws: `.keyTooLarge`, `.valueTooLarge`.
  public mutating func set(_ value: [UInt8], forKey key: Key) throws(StoreError) {
    try set(value, BatchOperations.Place(keyspace: 0, key: key))
  }

  /// Sets a value that expires. See ``set(_:forKey:)``.
  public mutating func set(
    _ value: [UInt8], forKey key: Key, expiring expiry: Expiry
  ) throws(StoreError) {
    try set(value, BatchOperations.Place(keyspace: 0, key: key), expiry)
  }

  /// - Returns: whether the key existed.
  /// - Throws: `.keyTooLarge`; the errors of ``Store/value(forKey:)`` where the batch has not set
  ///   the key.
  @discardableResult
  public mutating func removeValue(forKey key: Key) throws(StoreError) -> Bool {
    try remove(BatchOperations.Place(keyspace: 0, key: key))
  }

  /// Returns the value as this batch leaves it.
  ///
  /// - Throws: the errors of ``Store/value(forKey:)`` where the batch has not set the key.
  public mutating func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
    try value(BatchOperations.Place(keyspace: 0, key: key))
  }

  /// Returns whether the key exists as this batch leaves it. Throws the errors of
  /// ``value(forKey:)``.
  public mutating func contains(_ key: Key) throws(StoreError) -> Bool {
    try contains(BatchOperations.Place(keyspace: 0, key: key))
  }

  /// Sets a value if a condition on the key's present value holds.
  ///
  /// The condition sees the earlier operations of this batch. A value that this batch has set has
  /// no sequence number yet, so ``WriteCondition/sequence(_:)`` does not hold for it.
  ///
  /// - Returns: whether the condition holds; otherwise the batch is unchanged.
  /// - Throws: the errors of ``set(_:forKey:)`` and of ``value(forKey:)``.
  public mutating func set(
    _ value: [UInt8], forKey key: Key, if condition: WriteCondition,
    expiring expiry: Expiry = .never
  ) throws(StoreError) -> Bool {
    let place = BatchOperations.Place(keyspace: 0, key: key)
    guard try holds(condition, place) else { return false }
    try set(value, place, expiry)
    return true
  }

  /// Removes a key if a condition on its present value holds. See
  /// ``set(_:forKey:if:expiring:)``.
  ///
  /// - Returns: whether the condition holds and the key existed.
  public mutating func removeValue(
    forKey key: Key, if condition: WriteCondition
  ) throws(StoreError) -> Bool {
    let place = BatchOperations.Place(keyspace: 0, key: key)
    guard try holds(condition, place) else { return false }
    return try remove(place)
  }

  consuming func take() -> BatchCommit {
    BatchCommit(operations: operations, keyspaces: keyspaces)
  }
}

extension WriteBatch {
  /// Sets a value in a keyspace of the same store. See ``set(_:forKey:)``.
  public mutating func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) {
    try set(value, place(key, keyspace), keyspace.defaultExpiry)
  }

  /// Sets a value that expires in a keyspace of the same store. See ``set(_:forKey:)``.
  public mutating func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace, expiring expiry: Expiry
  ) throws(StoreError) {
    try set(value, place(key, keyspace), expiry)
  }

  /// Removes a key from a keyspace of the same store. See ``removeValue(forKey:)``.
  @discardableResult
  public mutating func removeValue(
    forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) -> Bool {
    try remove(place(key, keyspace))
  }

  /// Returns a value of a keyspace of the same store. See ``value(forKey:)``.
  public mutating func value(
    forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) -> [UInt8]? {
    try value(place(key, keyspace))
  }

  /// Returns whether a key exists in a keyspace of the same store. See ``contains(_:)``.
  public mutating func contains(_ key: Key, in keyspace: Keyspace) throws(StoreError) -> Bool {
    try contains(place(key, keyspace))
  }

  /// Sets a value in a keyspace of the same store if a condition holds. See
  /// ``set(_:forKey:if:expiring:)``.
  public mutating func set(
    _ value: [UInt8], forKey key: Key, in keyspace: Keyspace, if condition: WriteCondition,
    expiring expiry: Expiry? = nil
  ) throws(StoreError) -> Bool {
    let place = place(key, keyspace)
    guard try holds(condition, place) else { return false }
    try set(value, place, expiry ?? keyspace.defaultExpiry)
    return true
  }

  /// Removes a key from a keyspace of the same store if a condition holds. See
  /// ``removeValue(forKey:if:)``.
  public mutating func removeValue(
    forKey key: Key, in keyspace: Keyspace, if condition: WriteCondition
  ) throws(StoreError) -> Bool {
    let place = place(key, keyspace)
    guard try holds(condition, place) else { return false }
    return try remove(place)
  }

  mutating func place(_ key: Key, _ keyspace: Keyspace) -> BatchOperations.Place {
    precondition(keyspace.store === store, "a batch writes to keyspaces of its own store only")
    // The search is linear: a batch has few keyspaces.
    if let known = keyspaces.firstIndex(where: { $0.name == keyspace.name }) {
      if keyspace.wantsOrder { keyspaces[known].isOrdered = true }
      return BatchOperations.Place(keyspace: UInt16(known), key: key)
    }
    precondition(keyspaces.count <= Keyspace.limit, "more keyspaces than a store can have")
    keyspaces.append(keyspace.request)
    let number = UInt16(keyspaces.count - 1)
    if hasIndexes { addIndexKeyspace(of: number) }
    return BatchOperations.Place(keyspace: number, key: key)
  }

  /// Adds the keyspace of the indexes of a keyspace, if there is one.
  private mutating func addIndexKeyspace(of number: UInt16) {
    let name = IndexLayout.name(for: keyspaces[Int(number)].name)
    guard store.assumeIsolated({ $0.hasKeyspace(name) }) else { return }
    if let known = keyspaces.firstIndex(where: { $0.name == name }) {
      indexKeyspaces[number] = UInt16(known)
      return
    }
    keyspaces.append(KeyspaceRequest(name: name, isOrdered: true))
    indexKeyspaces[number] = UInt16(keyspaces.count - 1)
  }

  /// Returns the keyspace of the indexes of a keyspace; nil when the keyspace has no indexes.
  func indexKeyspace(of number: UInt16) -> UInt16? {
    indexKeyspaces.isEmpty ? nil : indexKeyspaces[number]
  }

  /// Returns whether the store has records of a keyspace, also such that have expired. The
  /// operations of this batch are not counted.
  package func hasRecords(in keyspace: Keyspace) throws(StoreError) -> Bool {
    let answer: Result<Bool, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownRecordCount(in: keyspace.name) > 0)
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Returns the keys that a keyspace has in the store, in the order of the log. The operations of
  /// this batch do not count.
  func storedKeys(in keyspace: Keyspace) throws(StoreError) -> [Key] {
    let answer: Result<[Key], StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.ownKeys(in: keyspace.name)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Returns the name of a keyspace of the batch.
  func name(of number: UInt16) -> String { keyspaces[Int(number)].name }
}

extension WriteBatch {
  mutating func set(
    _ value: [UInt8], _ place: BatchOperations.Place, _ expiry: Expiry = .never,
    _ row: IndexRow? = nil
  ) throws(StoreError) {
    try place.key.bytes.withBytes { (keyBytes) throws(StoreError) in
      try value.withBytes { (bytes) throws(StoreError) in
        try EngineState.checkLimits(keyBytes, bytes)
      }
    }
    let time =
      switch expiry {
      case .never: UInt64(0)
      case .unchanged: try presentExpiry(of: place)
      default: expiry.recorded(now: now())
      }
    if let indexes = indexKeyspace(of: place.keyspace) {
      try asOneStep { (batch) throws(StoreError) in
        try batch.updateEntries(of: place, with: row, expiry: time, in: indexes)
      }
    }
    put(place, value, expiry: time)
  }

  private mutating func remove(_ place: BatchOperations.Place) throws(StoreError) -> Bool {
    guard try contains(place) else { return false }
    try removeRecord(place)
    return true
  }

  /// Deletes a record with its entries in indexes, also one that has expired.
  mutating func removeRecord(_ place: BatchOperations.Place) throws(StoreError) {
    if let indexes = indexKeyspace(of: place.keyspace) {
      try asOneStep { (batch) throws(StoreError) in
        try batch.removeEntries(of: place, in: indexes)
      }
    }
    delete(place)
  }

  /// Runs a body that adds several operations. When it throws, it has added none: the caller of the
  /// batch may catch the error and commit the batch.
  mutating func asOneStep<Result>(
    _ body: (inout WriteBatch) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let count = operations.count
    do throws(StoreError) { return try body(&self) } catch {
      operations.removeAll(after: count)
      latest = nil
      throw error
    }
  }

  /// Adds a put, and nothing for the indexes of the keyspace.
  mutating func put(_ place: BatchOperations.Place, _ value: [UInt8], expiry: UInt64) {
    latest?[place] = operations.count
    operations.put(place, value, expiry: expiry)
  }

  /// Adds a delete, and nothing for the indexes of the keyspace.
  mutating func delete(_ place: BatchOperations.Place) {
    latest?[place] = operations.count
    operations.delete(place)
  }

  /// Returns the value of a key as this batch leaves it, also when it has expired.
  mutating func storedValue(_ place: BatchOperations.Place) throws(StoreError) -> [UInt8]? {
    if let index = lastOperation(on: place) { return operations.value(of: index) }
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<[UInt8]?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownStoredValue(forKey: place.key, in: name))
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  private mutating func value(_ place: BatchOperations.Place) throws(StoreError) -> [UInt8]? {
    if let index = lastOperation(on: place) {
      return isVisible(index) ? operations.value(of: index) : nil
    }
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<[UInt8]?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownValue(forKey: place.key, in: name))
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Returns the expiry of a key that this batch has not written: milliseconds since 1970, or 0 for
  /// never; nil when the key does not exist.
  ///
  /// - Parameter time: the time at which the key must exist; nil for now.
  mutating func recordedExpiry(
    of place: BatchOperations.Place, at time: UInt64? = nil
  ) throws(StoreError) -> UInt64? {
    assert(lastOperation(on: place) == nil, "the expiry of a key that the batch has written")
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<Expiry?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownExpiry(forKey: place.key, in: name, at: time))
      } catch {
        return .failure(error)
      }
    }
    guard let expiry = try answer.get() else { return nil }
    return expiry.milliseconds ?? 0
  }

  /// Returns the expiry of a key as this batch leaves it: milliseconds since 1970, or 0 for never,
  /// and for a key that does not exist. An entry that has ended since the batch began counts: the
  /// batch may have read it, and what replaces it has ended too.
  private mutating func presentExpiry(
    of place: BatchOperations.Place
  ) throws(StoreError) -> UInt64 {
    if let index = lastOperation(on: place) {
      let operation = operations.operations[index]
      let isKept = operation.kind.effect == .sets && operation.expiryMilliseconds > beginning
      return isKept ? operation.expiryMilliseconds : 0
    }
    return try recordedExpiry(of: place, at: beginning) ?? 0
  }

  mutating func holds(
    _ condition: WriteCondition, _ place: BatchOperations.Place
  ) throws(StoreError) -> Bool {
    switch condition {
    case .absent: return try !contains(place)
    case .value(let expected): return try value(place) == expected
    case .sequence(let expected):
      if lastOperation(on: place) != nil { return false }
      return try storedVersion(of: place)?.sequence == expected
    }
  }

  /// Returns the value that a key has in the store, with its sequence number.
  func storedVersion(
    of place: BatchOperations.Place
  ) throws(StoreError) -> VersionedValue? {
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<VersionedValue?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownVersionedValue(forKey: place.key, in: name))
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  mutating func contains(_ place: BatchOperations.Place) throws(StoreError) -> Bool {
    if let index = lastOperation(on: place) { return isVisible(index) }
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<Bool, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.ownContains(place.key, in: name)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Returns whether a key exists, as this batch leaves it, at the one time of the batch: answers
  /// that depend on each other are about the same moment.
  mutating func containsAtItsTime(_ place: BatchOperations.Place) throws(StoreError) -> Bool {
    if let index = lastOperation(on: place) { return isVisible(index) }
    let time = now()
    let name = keyspaces[Int(place.keyspace)].name
    let answer: Result<Bool, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) {
        return .success(try store.ownContains(place.key, in: name, at: time))
      } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Returns the time at which the batch first needed it.
  private mutating func now() -> UInt64 {
    if let time { return time }
    let now = store.observers.clock.now()
    time = now
    return now
  }

  /// Returns whether an operation leaves a value that has not expired.
  private mutating func isVisible(_ index: Int) -> Bool {
    let operation = operations.operations[index]
    guard operation.kind.effect == .sets else { return false }
    return operation.expiryMilliseconds == 0 || operation.expiryMilliseconds > now()
  }

  /// Number of operations up to which a search among them is faster than a dictionary.
  private static let fewOperations = 16

  private mutating func lastOperation(on place: BatchOperations.Place) -> Int? {
    if latest == nil {
      if operations.count <= Self.fewOperations { return operations.lastIndex(of: place) }
      latest = [:]
      for index in 0..<operations.count { latest?[operations.place(of: index)] = index }
    }
    return latest?[place]
  }
}

/// The operations that a batch appends.
struct BatchCommit {
  fileprivate let operations: BatchOperations
  /// The keyspaces, by the index that an operation contains. Some were only read.
  fileprivate let keyspaces: [KeyspaceRequest]

  var isEmpty: Bool { operations.count == 0 }
  var areDeletes: Bool { operations.areDeletes }
  /// The earliest time at which an entry of the batch expires; `UInt64.max` when none does.
  var earliestExpiry: UInt64 { operations.earliestExpiry }

  /// Whether it pays to compress the batch's value once for all attempts.
  var isOneLargeValue: Bool {
    operations.count == 1 && operations.operations[0].valueLength > PreparedValue.sharedBufferLimit
  }

  /// The keyspaces that must exist before the batch is committed.
  var written: [KeyspaceRequest] {
    if keyspaces.count == 1, !keyspaces[0].isOrdered { return [] }
    return Set(operations.operations.map(\.keyspace)).sorted().map { keyspaces[Int($0)] }
  }

  /// Returns the operations with the numbers that their keyspaces have in the store by now.
  func numbered(in table: KeyspaceTable) -> BatchOperations {
    if keyspaces.count == 1 { return operations }
    let ids = keyspaces.map { table.id(of: $0.name) }
    return operations.renumbered { number in
      guard let id = ids[Int(number)] else {
        fatalError("a batch uses a keyspace that was not created")
      }
      return id
    }
  }
}
