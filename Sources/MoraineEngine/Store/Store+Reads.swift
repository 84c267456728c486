public import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Returns the value of a key, or nil when the key does not exist.
  ///
  /// - Throws: `.corrupted` with file and offset when the bytes are not those that were written,
  ///   `.io`, `.closed`. A damaged value never reads as nil.
  /// - Complexity: O(key + value).
  @inlinable
  public func value(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    // This is compiled into the caller: a call that cannot wait costs no frame of its own.
    if isAlone { return try ownValue(forKey: key) }
    return try await sharedValue(forKey: key)
  }

  @usableFromInline
  func ownValue(forKey key: Key) throws(StoreError) -> [UInt8]? {
    try checkUsable()
    return try ownValue(forKey: key, keyspace: 0)
  }

  @usableFromInline
  func sharedValue(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    try await checkOpen()
    return try await value(forKey: key, keyspace: 0)
  }

  @inline(__always)
  func ownValue(forKey key: Key, keyspace: UInt16) throws(StoreError) -> [UInt8]? {
    guard engine != nil else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.value(bytes, keyspace: keyspace)
    }
  }

  @inline(__always)
  func ownContains(_ key: Key, keyspace: UInt16) throws(StoreError) -> Bool {
    guard engine != nil else { return false }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.contains(bytes, keyspace: keyspace)
    }
  }

  func value(forKey key: Key, keyspace: UInt16) async throws(StoreError) -> [UInt8]? {
    try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.value(bytes, keyspace: keyspace)
      }
    } ?? nil
  }

  /// Calls the body with the value of a key. Where the value is stored uncompressed and the segment
  /// is mapped, no byte is copied. The bytes stay valid and unchanged until the body returns,
  /// whatever other processes do.
  ///
  /// - Returns: the result of the body, or nil when the key does not exist.
  /// - Throws: the errors of ``value(forKey:)``, and those of the body.
  /// - Complexity: O(key + value), for the checksum.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await checkOpen()
    return try await withValue(forKey: key, keyspace: 0, body)
  }

  func withValue<Result>(
    forKey key: Key, keyspace: UInt16, _ body: (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    let stored =
      try await reading { (engine) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try engine.storedValue(bytes, keyspace: keyspace)
        }
      } ?? nil
    switch stored {
    case nil: return nil
    case .inPlace(let bytes, let mapping):
      defer { withExtendedLifetime(mapping) {} }
      return try body(bytes.bytes)
    case .copy(let value): return try body(value.span.bytes)
    }
  }

  /// Returns whether a key exists. Throws the errors of ``value(forKey:)``.
  @inlinable
  public func contains(_ key: Key) async throws(StoreError) -> Bool {
    if isAlone { return try ownContains(key) }
    return try await sharedContains(key)
  }

  @usableFromInline
  func ownContains(_ key: Key) throws(StoreError) -> Bool {
    try checkUsable()
    return try ownContains(key, keyspace: 0)
  }

  @usableFromInline
  func sharedContains(_ key: Key) async throws(StoreError) -> Bool {
    try await checkOpen()
    return try await contains(key, keyspace: 0)
  }

  func contains(_ key: Key, keyspace: UInt16) async throws(StoreError) -> Bool {
    try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.contains(bytes, keyspace: keyspace)
      }
    } ?? false
  }

  /// Returns the number of keys in all keyspaces together.
  ///
  /// Entries that have expired are not counted. The call looks at each of them that was not deleted
  /// yet.
  ///
  /// - Throws: `.closed`, `.suspended`; in a shared store the errors of reading what other
  ///   processes have written.
  /// - Complexity: O(1).
  public func count() async throws(StoreError) -> Int {
    try await checkOpen()
    return try await reading { (engine) throws(StoreError) in
      let expired = try engine.expiredCount(in: nil)
      return engine.live.count - expired
    } ?? 0
  }

  /// Returns the sequence number of the last operation.
  ///
  /// - Throws: as ``count()``.
  public func lastSequence() async throws(StoreError) -> SequenceNumber {
    try await checkOpen()
    return SequenceNumber(rawValue: engine?.log.lastSequence ?? 0)
  }

  /// The sequence number up to which all operations survive a power failure.
  public nonisolated var durableSequence: SequenceNumber {
    SequenceNumber(rawValue: pipeline.durableSequence.load(ordering: .acquiring))
  }

  /// The sequence number up to which all operations are in the archive too; none without an
  /// attached writer of an archive.
  public nonisolated var replicatedSequence: SequenceNumber {
    SequenceNumber(rawValue: pipeline.replication.sequence)
  }

  /// Waits until the archive has an operation, and asks the writer of the archive to ship it now.
  /// This is also how to wait again after a write with ``Durability/replicated`` has thrown
  /// `.archiveUnavailable`. Cancelling the task does not end the wait.
  ///
  /// - Throws: `.archiveUnavailable` when no writer is attached, or when the archive could not be
  ///   reached for as long as the writer's patience allows; `.fenced`, `.poisoned`, `.closed`.
  public nonisolated func waitUntilReplicated(
    _ sequence: SequenceNumber
  ) async throws(StoreError) {
    try await pipeline.replication.wait(until: sequence.rawValue, isPatient: true)
  }

  /// The report of the last opening; empty when the store is closed or suspended.
  public var recoveryReport: RecoveryReport { engine?.report ?? RecoveryReport() }
}

extension Store {
  /// Calls the body with every live record of the unnamed keyspace, in the order of the log, until
  /// the body returns false.
  ///
  /// The iteration is consistent: nothing else runs on the store until it ends, and the writes of
  /// other processes are applied before it begins or after it has ended.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, and the errors of the body. `.locked` when another
  ///   process compacts a store of more than 64 segments that is read without mappings, so that it
  ///   removes files before they are read: begin again.
  /// - Complexity: O(bytes of the log).
  public func scan(_ body: sending (Store.Entry) throws -> Bool) async throws {
    try await scan(in: 0, body)
  }

  func scan(in keyspace: UInt16, _ body: (Store.Entry) throws -> Bool) async throws {
    try await checkOpen()
    guard engine != nil else { return }
    try await holdFiles()
    try checkUsable()
    var walk = LogWalk(keyspace: keyspace, slots: [], now: 0)
    let entry = try await reading { (engine) throws(StoreError) in
      try engine.validateAllPages()
      walk = LogWalk(
        keyspace: keyspace, slots: engine.log.table.readingOrder, now: engine.now)
      return try engine.next(&walk)
    }
    guard let first = entry ?? nil else { return }
    guard let error = try goThrough(&walk, from: first, body) else { return }
    guard try await wasReplaced(error) else { throw error }
    throw StoreError(
      .locked, "another process compacted the store during the iteration; start it again",
      file: error.file)
  }

  /// - Returns: the error that ended the reading of the log. An error of the body is thrown.
  private func goThrough(
    _ walk: inout LogWalk, from first: Store.Entry, _ body: (Store.Entry) throws -> Bool
  ) throws -> StoreError? {
    var entry: Store.Entry? = first
    while let found = entry {
      guard try body(found) else { return nil }
      do throws(StoreError) { entry = try engine!.next(&walk) } catch { return error }
    }
    return nil
  }

  /// Returns the live records of a keyspace, and the number of the store's last operation at that
  /// moment.
  func entries(
    in keyspace: String
  ) async throws(StoreError) -> (entries: [Store.Entry], sequence: UInt64) {
    try await checkOpen()
    try await holdFiles()
    try checkUsable()
    return try await reading { (engine) throws(StoreError) in
      let entries = try engine.keyspaces.id(of: keyspace).map { id throws(StoreError) in
        try engine.entries(in: id)
      }
      return (entries ?? [], engine.log.lastSequence)
    } ?? ([], 0)
  }
}

extension Store {
  /// Returns the live figures of each keyspace: the unnamed one, then the others by name.
  ///
  /// Throws the errors of ``Keyspace/statistics()``, and takes as long.
  public func keyspaceStatistics() async throws(StoreError) -> [KeyspaceStatistics] {
    try await checkOpen()
    var result: [KeyspaceStatistics] = []
    for name in [""] + knownKeyspaceNames { result.append(try knownStatistics(of: name)) }
    return result
  }

  /// Returns the number of a keyspace; nil when nothing was ever written to it.
  func id(of keyspace: String) -> UInt16? {
    engine == nil ? nil : engine!.id(of: keyspace)
  }

  /// Whether anything was ever written to a keyspace.
  func hasKeyspace(_ name: String) -> Bool { id(of: name) != nil }

  /// Returns the number of live records of a keyspace, with those that have expired, for a caller
  /// beside which no other process writes.
  func ownRecordCount(in keyspace: String) throws(StoreError) -> Int {
    try checkUsable()
    guard let id = id(of: keyspace) else { return 0 }
    return try engine!.figures(of: id).count
  }

  /// Returns the keys of a keyspace, for a caller beside which no other process writes.
  func ownKeys(in keyspace: String) throws(StoreError) -> [Key] {
    try checkUsable()
    guard let id = id(of: keyspace) else { return [] }
    return try engine!.keys(in: id)
  }

  func value(forKey key: Key, in keyspace: String) async throws(StoreError) -> [UInt8]? {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return nil }
    return try await value(forKey: key, keyspace: id)
  }

  /// Returns the value of a key, for a caller beside which no other process writes.
  func ownValue(forKey key: Key, in keyspace: String) throws(StoreError) -> [UInt8]? {
    try checkUsable()
    guard let id = id(of: keyspace) else { return nil }
    return try ownValue(forKey: key, keyspace: id)
  }

  /// Returns the value of a key, also when it has expired.
  func ownStoredValue(forKey key: Key, in keyspace: String) throws(StoreError) -> [UInt8]? {
    try checkUsable()
    guard let id = id(of: keyspace) else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.valueEvenExpired(bytes, keyspace: id)
    }
  }

  func withValue<Result>(
    forKey key: Key, in keyspace: String, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return nil }
    return try await withValue(forKey: key, keyspace: id, body)
  }

  func contains(_ key: Key, in keyspace: String) async throws(StoreError) -> Bool {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return false }
    return try await contains(key, keyspace: id)
  }

  /// Returns whether a key exists, for a caller beside which no other process writes.
  func ownContains(_ key: Key, in keyspace: String) throws(StoreError) -> Bool {
    try checkUsable()
    guard let id = id(of: keyspace) else { return false }
    return try ownContains(key, keyspace: id)
  }

  package func scan(
    in keyspace: String, _ body: (Store.Entry) throws -> Bool
  ) async throws {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return }
    try await scan(in: id, body)
  }

  func statistics(of keyspace: String) async throws(StoreError) -> KeyspaceStatistics {
    try await checkOpen()
    return try knownStatistics(of: keyspace)
  }

  private func knownStatistics(of keyspace: String) throws(StoreError) -> KeyspaceStatistics {
    var result = KeyspaceStatistics(name: keyspace)
    guard let id = id(of: keyspace) else { return result }
    let figures = try engine!.figures(of: id)
    result.isOrdered = engine!.live.isOrdered(id)
    result.count = figures.count - (try engine!.expiredCount(in: id))
    result.liveBytes = figures.liveBytes
    return result
  }
}

extension [Store.Entry] {
  /// Puts entries that a walk has found in the log into the order in which they were stored.
  ///
  /// Almost always they have this order. Compaction writes the records of ordered keyspaces in the
  /// order of their keys; and while it replaces segments, its copies come after the originals.
  mutating func sortBySequence() {
    let areSorted = indices.dropFirst().allSatisfy { self[$0 - 1].sequence < self[$0].sequence }
    if !areSorted { sort { $0.sequence < $1.sequence } }
  }
}

extension EngineState {
  /// Returns the live records of a keyspace, in the order in which they were stored.
  mutating func entries(in keyspace: UInt16) throws(StoreError) -> [Store.Entry] {
    try validateAllPages()
    var result: [Store.Entry] = []
    var walk = LogWalk(keyspace: keyspace, slots: log.table.readingOrder, now: now)
    while let entry = try next(&walk) { result.append(entry) }
    result.sortBySequence()
    return result
  }

  /// Returns the keys of a keyspace, in the order of the log.
  mutating func keys(in keyspace: UInt16) throws(StoreError) -> [Key] {
    try validateAllPages()
    var result: [Key] = []
    var walk = LogWalk(keyspace: keyspace, slots: log.table.readingOrder, now: now)
    while let (_, record) = try walk.nextRecord(live, log.table) {
      result.append(Key([UInt8](record.key)))
    }
    return result
  }

  func next(_ walk: inout LogWalk) throws(StoreError) -> Store.Entry? {
    try walk.next(live, log.table)
  }

  func next(_ cursor: inout LogCursor) throws(StoreError) -> Store.Entry? {
    try cursor.nextRecord(live, log.table).map { address, record throws(StoreError) in
      try log.table.entry(of: record, at: address)
    }
  }
}

extension Store {
  /// Returns the store's figures at this moment. A store that no longer accepts writes has figures
  /// too: see ``Store/Statistics/poison``.
  ///
  /// - Throws: as ``count()``.
  /// - Complexity: O(segments).
  public func statistics() async throws(StoreError) -> Store.Statistics {
    try await checkOpen()
    return knownStatistics
  }

  /// The figures without the changes that other processes have made since this one last read them.
  var knownStatistics: Store.Statistics {
    var result = Store.Statistics()
    result.durableSequence = durableSequence
    let (syncCount, began) = pipeline.monitor.withLock { ($0.syncCount, $0.syncBeganNanoseconds) }
    result.syncCount = syncCount
    result.syncUnderWayNanoseconds = began.map { SystemClock.monotonicNanoseconds() - $0 }
    result.poison = pipeline.poison
    result.compactionBytes = compaction.writtenBytes
    result.checkpointBytes = checkpoints.writtenBytes
    result.compactionCount = compaction.count
    if engine != nil { describeEngine(in: &result) }
    return result
  }

  /// Returns the figures of the segments that make up the store, in the order of the log.
  ///
  /// - Throws: as ``count()``.
  /// - Complexity: O(segments).
  public func segmentStatistics() async throws(StoreError) -> [SegmentStatistics] {
    try await checkOpen()
    return knownSegmentStatistics
  }

  var knownSegmentStatistics: [SegmentStatistics] {
    guard engine != nil else { return [] }
    return engine!.log.table.order.map { slot in
      let (info, view) = (engine!.log.table.infos[slot], engine!.log.table[slot])
      var result = SegmentStatistics(number: info.number)
      result.lengthBytes = UInt64(view.end)
      result.liveBytes = UInt64(view.boundedLiveBytes)
      result.recordCount = view.recordCount
      result.lastSequence = SequenceNumber(rawValue: view.lastSequence)
      result.isSealed = info.flags.contains(.sealed)
      result.isCompacted = info.isCompacted
      result.isClustered = info.isClustered
      return result
    }
  }

  private func describeEngine(in result: inout Store.Statistics) {
    result.appendedBytes = engine!.log.appendedBytes
    result.count = engine!.live.count
    result.indexBytes = engine!.live.byteCount
    result.lastSequence = SequenceNumber(rawValue: engine!.log.lastSequence)
    result.digest = engine!.live.digest
    for slot in engine!.log.table.readingOrder {
      result.segmentCount += 1
      result.diskBytes += UInt64(engine!.log.table[slot].end)
    }
    result.liveBytes = min(engine!.live.bytes, result.diskBytes)
  }
}

extension Store {
  /// Returns where the live records of each segment lie, in the order of the log: a picture of the
  /// work of compaction.
  ///
  /// - Parameter partCount: the number of parts that a segment is divided into; at least 1.
  /// - Throws: `.closed`, `.corrupted`, `.io`.
  /// - Complexity: O(bytes of the store). Nothing else runs on the store during the call.
  public func segmentLiveness(partCount: Int) async throws(StoreError) -> [SegmentLiveness] {
    precondition(partCount > 0, "a segment has at least one part")
    try await checkOpen()
    let segments = knownSegmentStatistics
    guard engine != nil else { return [] }
    try engine!.validateAllPages()
    let slots = Array(engine!.log.table.order)
    var result: [SegmentLiveness] = []
    for (slot, segment) in zip(slots, segments) {
      var shares = [Double](repeating: 0, count: partCount)
      let length = Double(max(segment.lengthBytes, 1))
      var cursor = LogCursor(slot: slot, keyspace: nil, asksAlways: true)
      while let found = try engine!.nextLive(&cursor) {
        let places = (found.lowerBound, found.upperBound)
        Self.spread(from: Double(places.0) / length, to: Double(places.1) / length, over: &shares)
      }
      result.append(SegmentLiveness(segment: segment, shares: shares.map { min($0, 1) }))
    }
    return result
  }

  /// Adds a range of the whole segment to the parts that the range covers.
  private static func spread(from start: Double, to end: Double, over shares: inout [Double]) {
    let count = Double(shares.count)
    let (first, last) = (start * count, min(end * count, count))
    for part in Int(first)..<max(Int(first) + 1, Int(last.rounded(.up))) where part < shares.count {
      shares[part] += max(0, min(last, Double(part + 1)) - max(first, Double(part)))
    }
  }
}

extension Store {
  /// Returns where the records of an ordered keyspace lie in the log: a picture of how many places
  /// a scan reads from.
  ///
  /// - Parameters:
  ///   - keyspace: the keyspace; nil is returned for one that is hashed or does not exist.
  ///   - columns: the number of parts into which the keys are divided, in their order; at least 1.
  ///   - rows: the number of parts into which the log is divided; at least 1.
  /// - Throws: `.closed`, `.corrupted`, `.io`.
  /// - Complexity: O(keys). No record is read. Nothing else runs on the store during the call.
  package func keyOrderPlaces(
    in keyspace: String, columns: Int, rows: Int
  ) async throws(StoreError) -> KeyOrderPlaces? {
    precondition(columns > 0 && rows > 0, "a picture has at least one column and one row")
    try await checkOpen()
    guard engine != nil, let id = id(of: keyspace), engine!.live.trees.isOrdered(id) else {
      return nil
    }
    return try engine!.keyOrderPlaces(in: id, columns: columns, rows: rows)
  }
}

extension EngineState {
  fileprivate mutating func keyOrderPlaces(
    in id: UInt16, columns: Int, rows: Int
  ) throws(StoreError) -> KeyOrderPlaces {
    let row = [Int](repeating: 0, count: rows)
    var counts = [[Int]](repeating: row, count: columns)
    var starts: [Int: UInt64] = [:]
    var length: UInt64 = 0
    for slot in log.table.readingOrder {
      starts[slot] = length
      length += UInt64(log.table[slot].end)
    }
    guard var walk = try walk(id, .all, .ascending, limit: .max) else {
      return KeyOrderPlaces(counts: counts)
    }
    let keyCount = walk.remainingCount(live.trees)
    var number = 0
    while number < keyCount, let address = walk.next(live.trees) {
      guard let start = starts[address.slot] else {
        throw .indexDamaged("a tree names a segment that the store does not have", nil)
      }
      let place = start + UInt64(address.offset)
      counts[number * columns / keyCount][min(rows - 1, Int(place * UInt64(rows) / length))] += 1
      number += 1
    }
    return KeyOrderPlaces(counts: counts)
  }

  /// Returns the range of bytes that the next live record occupies.
  fileprivate mutating func nextLive(_ cursor: inout LogCursor) throws(StoreError) -> Range<Int>? {
    guard let (address, record) = try cursor.nextRecord(live, log.table) else { return nil }
    return address.offset..<(address.offset + aligned(record.header.length))
  }
}

extension Store {
  /// Returns the current state of the store, for reading from any thread; see ``Store/Snapshot``.
  ///
  /// - Throws: `.closed`, `.suspended`; `.corrupted`, `.io` when the index must be read and cannot
  ///   be.
  /// - Complexity: O(segments), and eight bytes for about 350 keys; O(1) when the last snapshot
  ///   still exists and nothing was written since. The first snapshot after opening reads the whole
  ///   index checkpoint.
  public func snapshot() async throws(StoreError) -> Store.Snapshot {
    try await checkOpen()
    return try currentSnapshot()
  }

  /// Returns a snapshot of what this process has.
  func currentSnapshot() throws(StoreError) -> Store.Snapshot {
    guard engine != nil else { return Store.Snapshot(nil) }
    let (sequence, count) = (engine!.log.lastSequence, compaction.count)
    let ordered = engine!.live.trees.ordered
    let states = peers.readStateCount
    if let last = readers.snapshot(
      at: sequence, compactionCount: count, stateCount: states, ordered,
      earliestExpiry: engine!.log.table.earliestExpiry, now: observers.clock.now())
    {
      return Store.Snapshot(last)
    }
    let handle = SnapshotHandle(try SnapshotState(&engine!, readers.live), stateCount: states)
    readers.keep(handle, compactionCount: count, stateCount: states)
    return Store.Snapshot(handle)
  }
}

extension Keyspace {
  /// Returns the current state of the keyspace, like ``Store/snapshot()``.
  public func snapshot() async throws(StoreError) -> Store.Snapshot {
    try await store.snapshot().keyspace(named: name)
  }
}
