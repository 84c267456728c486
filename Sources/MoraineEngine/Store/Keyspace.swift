public import MoraineFormat
import MoraineStorage

/// A named part of a store with its own keys.
///
/// All keyspaces of a store share its log and its syncs, and a batch may span them. The first write
/// to a keyspace creates it, and waits for the disk once; until then the keyspace is empty.
///
/// ```swift
/// let users = try store.keyspace(named: "users")
/// try await users.set(bytes, forKey: "ada")
/// ```
public struct Keyspace: Sendable {
  /// The store that contains the keyspace.
  public let store: Store
  /// The keyspace's name; empty for the keyspace that ``Store``'s own methods use.
  public let name: String
  /// Whether the first use makes the keyspace ordered.
  let wantsOrder: Bool
  /// The expiry of a write through this handle that does not say another one.
  package let defaultExpiry: Expiry

  init(
    store: Store, name: String, wantsOrder: Bool = false, defaultExpiry: Expiry = .never
  ) {
    (self.store, self.name, self.wantsOrder) = (store, name, wantsOrder)
    self.defaultExpiry = defaultExpiry
  }

  /// The length of the longest name, in bytes of UTF-8.
  public static let nameLengthBytes = 255
  /// The largest number of names in a store.
  public static let limit = 0xFEFF
}

extension Store {
  /// Returns a keyspace of this store. Reads and writes nothing.
  ///
  /// - Parameter name: up to 255 bytes of UTF-8, compared as Swift compares text; empty for the
  ///   keyspace that the store's own methods use.
  /// - Parameter defaultLifetime: time after which an entry expires that is set through this handle
  ///   without an expiry; nil for entries that do not expire. The store does not keep this default.
  /// - Throws: `.keyTooLarge` when the name is longer.
  public nonisolated func keyspace(
    named name: String, defaultLifetime: Duration? = nil
  ) throws(StoreError) -> Keyspace {
    guard name.utf8.count <= Keyspace.nameLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "the keyspace name has \(name.utf8.count) bytes; the limit is \(Keyspace.nameLengthBytes)")
    }
    return Keyspace(
      store: self, name: name, defaultExpiry: defaultLifetime.map { .after($0) } ?? .never)
  }

  /// Returns a keyspace whose keys are in the order of their bytes: ranges, prefixes, the first and
  /// the last key, and the keys before and after a key are fast. Reads and writes nothing.
  ///
  /// An ordered keyspace has a tree as its index, instead of a hash table. Keys have at most
  /// `StoreLimits.orderedKeyLengthBytes`. The first put, or the first call that needs the order,
  /// makes an existing keyspace ordered: that reads the log twice. First the records are verified,
  /// while other calls may read and writes wait; then the tree is built, while all calls wait. The
  /// keyspace stays ordered.
  ///
  /// - Parameters: as for ``keyspace(named:defaultLifetime:)``.
  public nonisolated func orderedKeyspace(
    named name: String, defaultLifetime: Duration? = nil
  ) throws(StoreError) -> Keyspace {
    let keyspace = try keyspace(named: name, defaultLifetime: defaultLifetime)
    return Keyspace(
      store: self, name: keyspace.name, wantsOrder: true, defaultExpiry: keyspace.defaultExpiry)
  }

  /// Returns the sorted names of the keyspaces that were ever written to, except the unnamed one.
  /// The keyspaces that hold the indexes of others are left out.
  ///
  /// - Throws: as ``count()``.
  /// - Complexity: O(keyspaces).
  public func keyspaceNames() async throws(StoreError) -> [String] {
    try await checkOpen()
    return knownKeyspaceNames.filter { IndexLayout.indexedName(of: $0) == nil }
  }

  var knownKeyspaceNames: [String] {
    engine?.log.manifest.keyspaces.map(\.name).sorted() ?? []
  }
}

/// A keyspace that a write needs.
struct KeyspaceRequest: Hashable {
  let name: String
  /// Whether the keyspace must be ordered.
  var isOrdered: Bool
}

extension Keyspace {
  var request: KeyspaceRequest { KeyspaceRequest(name: name, isOrdered: wantsOrder) }
}

extension Keyspace: Hashable {
  public static func == (left: Keyspace, right: Keyspace) -> Bool {
    left.store === right.store && left.name == right.name
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(store))
    hasher.combine(name)
  }
}

/// The live figures of a keyspace at one moment.
public struct KeyspaceStatistics: Hashable, Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public internal(set) var name: String
  /// Whether the keyspace is ordered.
  public internal(set) var isOrdered = false
  /// Number of live keys, without those that have expired.
  public internal(set) var count = 0
  /// Bytes of the live keys' records in the log. Expired entries are live until they are deleted.
  public internal(set) var liveBytes: UInt64 = 0
}

extension Keyspace {
  /// Returns the value of a key, or nil when the key does not exist. See ``Store/value(forKey:)``.
  public func value(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    if store.isAlone { return try await store.ownValue(forKey: key, in: name) }
    return try await store.value(forKey: key, in: name)
  }

  /// Calls the body with the value of a key. See ``Store/withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await store.withValue(forKey: key, in: name, body)
  }

  /// Returns whether a key exists. See ``Store/contains(_:)``.
  public func contains(_ key: Key) async throws(StoreError) -> Bool {
    if store.isAlone { return try await store.ownContains(key, in: name) }
    return try await store.contains(key, in: name)
  }

  /// Calls the body with every live record, in the order of the log, until the body returns false.
  /// See ``Store/scan(_:)``.
  ///
  /// - Complexity: O(bytes of the log), including those of the other keyspaces.
  public func scan(_ body: sending (Store.Entry) throws -> Bool) async throws {
    try await store.scan(in: name, body)
  }

  /// Returns the number of keys, and the size of their records.
  ///
  /// - Throws: `.corrupted`, `.io` where the records must be counted, `.closed`.
  /// - Complexity: O(1), except the first time after a crash in the middle of a compaction: O(keys
  ///   of the store).
  public func statistics() async throws(StoreError) -> KeyspaceStatistics {
    try await store.statistics(of: name)
  }

  /// Returns the number of keys. Throws the errors of ``statistics()``, and takes as long.
  public func count() async throws(StoreError) -> Int { try await statistics().count }
}

extension Keyspace {
  /// Stores a value under a key, and replaces the value that the key had. See
  /// ``Store/set(_:forKey:durability:)``.
  ///
  /// - Throws: also `.limitExceeded` when the store has ``limit`` keyspaces already.
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await store.set(
      value, forKey: key, in: request, expiring: defaultExpiry, durability: durability)
  }

  /// Removes a key and its value. See ``Store/removeValue(forKey:durability:)``.
  @discardableResult
  public func removeValue(
    forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await store.removeValue(forKey: key, in: name, durability: durability)
  }
}

extension Store {
  func set(
    _ value: [UInt8], forKey key: Key, in keyspace: KeyspaceRequest, expiring expiry: Expiry,
    durability: Durability?
  ) async throws(StoreError) -> SequenceNumber {
    let isUnnamed = keyspace.name.isEmpty && !keyspace.isOrdered
    if isUnnamed, expiry == .never {
      return try await set(value, forKey: key, durability: durability)
    }
    if expiry == .unchanged {
      let handle = Keyspace(store: self, name: keyspace.name, wantsOrder: keyspace.isOrdered)
      return try await putAsUnit(value, key, handle, expiry, durability)
    }
    let time = expiry == .never ? 0 : expiry.recorded(now: observers.clock.now())
    let sequence: SequenceNumber
    if engine != nil, let id = engine!.id(fulfilling: keyspace),
      let done = try putAtOnce(key, value, id, expiry: time)
    {
      sequence = done
    } else {
      try await passGate()
      let prepared = PreparedValue()
      let done = try await withRoom(mayWait: true, creating: isUnnamed ? [] : [keyspace]) {
        (engine) throws(StoreError) -> Outcome<SequenceNumber?> in
        guard let id = engine.keyspaces.id(of: keyspace.name) else {
          fatalError("a write uses a keyspace that was not created")
        }
        if engine.keyspaces.isIndexed(id) { return .done(nil) }
        return try engine.put(key, value, keyspace: id, expiry: time, prepared).optional
      }
      guard let done else {
        let handle = Keyspace(store: self, name: keyspace.name, wantsOrder: keyspace.isOrdered)
        return try await putAsUnit(value, key, handle, expiry, durability)
      }
      sequence = done
    }
    if time != 0 { scheduleReaping(for: time) }
    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }
    return sequence
  }

  func removeValue(
    forKey key: Key, in keyspace: String, durability: Durability?
  ) async throws(StoreError) -> SequenceNumber? {
    // Another process may have created the keyspace.
    if isShared { try await checkOpen() }
    try await passGateToDelete()
    guard let id = id(of: keyspace) else { return nil }
    return try await removeValue(forKey: key, keyspace: id, durability: durability)
  }

  /// Lists keyspaces in the manifest: a keyspace's name must be durable before its first record may
  /// become durable. The caller holds the gate.
  ///
  /// - Throws: `.limitExceeded` when there are too many keyspaces, and the errors of any write.
  func createKeyspaces(_ requests: [KeyspaceRequest]) async throws(StoreError) {
    for request in requests where !engine!.fulfils(request) {
      try engine!.checkWritable()
      await writing.manifestGate.acquire()
      defer { writing.manifestGate.release() }
      let before = engine!.log.manifest
      let known = engine!.keyspaces.id(of: request.name)
      let isOrdered = request.isOrdered || opener.configuration.ordersKeyspaces
      if let known, isOrdered { try await checkCanBeOrdered(known, request.name) }
      let id = if let known { known } else { try engine!.list(keyspace: request.name).id }
      if isOrdered { engine!.log.manifest.order(id) }
      do throws(StoreError) {
        try await publishManifest()
      } catch {
        restoreKeyspaces(of: before)
        throw error
      }
      if known == nil, let listed = engine!.log.manifest.keyspaces.first(where: { $0.id == id }) {
        engine!.keyspaces.add(listed)
        if isOrdered { engine!.live.trees.order(id) }
      } else if isOrdered {
        try await moveToTree(id, request.name, before)
      }
    }
  }

  private func restoreKeyspaces(of before: Manifest) {
    engine!.log.manifest.keyspaces = before.keyspaces
    engine!.log.manifest.ordered = before.ordered
  }

  /// Verifies all records of a keyspace that is to be ordered. The caller has the manifest's gate,
  /// so the segments stay the same. Other tasks may read between two segments.
  private func checkCanBeOrdered(_ id: UInt16, _ name: String) async throws(StoreError) {
    assert(writing.manifestGate.isHeld, "segments may be replaced while they are checked")
    try engine!.validateAllPages()
    let slots = engine!.log.table.readingOrder
    let total = engine!.log.table.totalBytes
    var checked: UInt64 = 0
    for slot in slots {
      try engine!.checkCanBeOrdered(id, slot)
      checked += UInt64(engine!.log.table[slot].end)
      send(
        .keyspaceOrdering(
          name: name, Store.Progress(completedBytes: checked, totalBytes: 2 * total)))
      await Task.yield()
      try checkUsable()
    }
  }

  /// Builds the tree of a keyspace whose records were verified, and fit a tree.
  ///
  /// - Parameter before: the manifest from before the keyspace was ordered.
  private func moveToTree(
    _ id: UInt16, _ name: String, _ before: Manifest
  ) async throws(StoreError) {
    let began = SystemClock.monotonicNanoseconds()
    let total = engine!.log.table.totalBytes
    do throws(StoreError) {
      try engine!.order(id) { done in
        send(
          .keyspaceOrdering(
            name: name, Store.Progress(completedBytes: total + done, totalBytes: 2 * total)))
      }
    } catch {
      try await undoOrder(before, after: error)
      throw error
    }
    send(
      .keyspaceOrdered(
        name: name, keyCount: engine!.live.trees.root(id).count,
        elapsedNanoseconds: SystemClock.monotonicNanoseconds() - began))
  }

  /// Publishes that a keyspace is not ordered, because its tree could not be built: memory or a
  /// descriptor was refused, or a read failed. Where that publication fails, all writing stops: the
  /// manifest says that the keyspace is ordered, and a write would use the hash index. The next
  /// opening builds the tree.
  ///
  /// - Throws: the errors of the publication.
  private func undoOrder(
    _ before: Manifest, after error: StoreError
  ) async throws(StoreError) {
    assert(writing.manifestGate.isHeld, "the manifest may have changed since")
    // Another process of a shared store may have read the manifest, and have ordered its index.
    guard !isShared else { return pipeline.poison(error) }
    restoreKeyspaces(of: before)
    do throws(StoreError) { try await publishManifest() } catch {
      pipeline.poison(error)
      throw error
    }
  }
}

extension EngineState {
  /// Whether a keyspace is as a write needs it.
  func fulfils(_ request: KeyspaceRequest) -> Bool { id(fulfilling: request) != nil }

  /// Returns the number of a keyspace that is as a write needs it; nil when it is not.
  func id(fulfilling request: KeyspaceRequest) -> UInt16? {
    guard let id = keyspaces.id(of: request.name) else { return nil }
    return !request.isOrdered || live.isOrdered(id) ? id : nil
  }

  /// Throws when a segment has a damaged record, or a record of a keyspace with a key that is too
  /// long for an ordered one. Records that are not live count too: an opening replays them.
  ///
  /// - Complexity: O(bytes of the segment).
  fileprivate func checkCanBeOrdered(_ id: UInt16, _ slot: Int) throws(StoreError) {
    var offset = log.table[slot].firstOffset
    while offset < log.table[slot].operationsEnd {
      let address = Address(slot: slot, offset: offset)
      let record = try log.table.entryRecord(at: address)
      offset += aligned(record.header.length)
      guard record.header.kind.isOperation, record.header.keyspace == id,
        record.key.count > StoreLimits.orderedKeyLengthBytes
      else { continue }
      throw StoreError(
        .keyTooLarge,
        "a key of the keyspace has \(record.key.count) bytes; the limit of an ordered keyspace "
          + "is \(StoreLimits.orderedKeyLengthBytes). Remove such keys, and compact the store",
        file: log.table.fileName(slot), offset: UInt64(address.offset))
    }
  }

  /// Moves the entries of a keyspace from the hash index to a tree.
  ///
  /// - Parameters:
  ///   - keepsStrayKeys: whether keys that are too long stay in the hash index for now; see
  ///     ``checkStrayKeys()``. Otherwise they are an error.
  ///   - onProgress: called after each segment with the number of bytes of the log that were
  ///     processed.
  /// - Throws: the errors of reading the keys, `.limitExceeded`; then nothing has changed.
  /// - Complexity: O(bytes of the log).
  mutating func order(
    _ id: UInt16, keepsStrayKeys: Bool = false, onProgress: (UInt64) -> Void = { _ in }
  ) throws(StoreError) {
    try validateAllPages()
    precondition(live.trees.root(id).count == 0, "a keyspace is ordered twice")
    do throws(StoreError) {
      let (entries, strayKeys) = try addToTree(id, keepsStrayKeys, onProgress)
      try live.index.secureRemovals(entries.count)
      live.trees.order(id)
      strayKeyCount += strayKeys
      for entry in entries { live.index.remove(entry.address, entry.hash) }
    } catch {
      live.trees.removeAll(of: id)
      throw error
    }
  }

  /// Adds the live records of a keyspace to its tree.
  ///
  /// - Returns: the entries that moved, and the number of keys that are too long.
  private mutating func addToTree(
    _ id: UInt16, _ keepsStrayKeys: Bool, _ onProgress: (UInt64) -> Void
  ) throws(StoreError) -> (entries: [(address: Address, hash: UInt64)], strayKeys: Int) {
    var entries: [(address: Address, hash: UInt64)] = []
    var strayKeys = 0
    var done: UInt64 = 0
    for slot in log.table.readingOrder {
      var cursor = LogCursor(slot: slot, keyspace: id, asksAlways: true)
      while let (address, record) = try cursor.nextRecord(live, log.table) {
        let key = [UInt8](record.key)
        if keepsStrayKeys, key.count > StoreLimits.orderedKeyLengthBytes {
          strayKeys += 1
          continue
        }
        try key.withBytes { (bytes) throws(StoreError) in
          try Self.checkOrdered(bytes)
          try live.trees.secureChange()
          let place = try live.trees.place(of: TreeKey(bytes), in: id, log.table)
          guard place.existing == nil else {
            throw .indexDamaged("the index names two records of one key", checkpointNames.first)
          }
          live.trees.insert(TreeKey(bytes), address, at: place, in: id, log.table)
          entries.append((address, hash(bytes, id)))
        }
      }
      done += UInt64(log.table[slot].end)
      onProgress(done)
    }
    return (entries, strayKeys)
  }

  fileprivate mutating func list(keyspace name: String) throws(StoreError) -> Manifest.Keyspace {
    let last =
      log.manifest.keyspaces.map(\.id).filter { $0 < KeyspaceTable.firstSystemID }.max() ?? 0
    guard last < Keyspace.limit else {
      throw StoreError(.limitExceeded, "a store has at most \(Keyspace.limit) keyspaces")
    }
    let keyspace = Manifest.Keyspace(id: last + 1, index: 0, name: name)
    log.manifest.keyspaces.append(keyspace)
    return keyspace
  }
}
