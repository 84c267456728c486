import MoraineFormat
import MoraineStorage

/// What one attempt of a transaction has read and written.
///
/// A conflict is found by asking again: the transaction may be committed if each of its reads would
/// have the same answer now. Then the whole transaction could have run at this moment, after all
/// that was committed before. (Backward validation: Kung and Robinson, "On optimistic methods for
/// concurrency control", TODS 1981; Härder, "Observations on optimistic concurrency control
/// schemes", Information Systems 1984. Here against the present state, not against the write sets
/// of other transactions: so plain writes, and other processes, need no record of theirs.)
struct TransactionContents: Sendable {
  /// The reads and writes of one keyspace.
  struct Part: Sendable {
    let snapshot: Store.Snapshot
    /// The sequence number of each key that was read; `.none` for a key that did not exist.
    var reads: [Key: SequenceNumber] = [:]
    /// The ranges that were read.
    var ranges: [KeyRange] = []
    /// The number of keys of the keyspace, after all of them were read; otherwise nil.
    var countAtBeginning: Int?
    /// The last write to each key.
    fileprivate(set) var writes: [Key: Write] = [:]
    /// The keyspace; nil for the unnamed one.
    fileprivate(set) var keyspace: Keyspace?

    /// The writes in the order of the calls.
    var writesInOrder: [(key: Key, value: [UInt8]?)] {
      writes.sorted { $0.value.number < $1.value.number }.map { ($0.key, $0.value.value) }
    }

    /// Returns the writes to a range, in the order of their keys.
    func ownWrites(in range: KeyRange, _ order: KeyOrder) -> [(key: Key, value: [UInt8]?)] {
      if writes.isEmpty { return [] }
      let inside = writes.filter { range.contains($0.key) }
      let ascending = inside.sorted { $0.key < $1.key }.map { ($0.key, $0.value.value) }
      return order == .ascending ? ascending : ascending.reversed()
    }
  }

  /// A write to a key.
  struct Write: Sendable {
    /// Nil when the key is removed.
    let value: [UInt8]?
    /// The time at which the entry ends.
    let expiry: Expiry
    /// The values in the indexes of the keyspace; nil when the writer knows no index.
    let row: IndexRow?
    /// The number of the call among those of the transaction.
    let number: Int
  }

  let start: TransactionStart
  private(set) var parts: [String: Part] = [:]
  private var writeCount = 0

  init(_ start: TransactionStart) {
    self.start = start
  }

  var snapshot: Store.Snapshot { start.snapshot }

  mutating func write(
    _ value: [UInt8]?, _ key: Key, _ name: String, _ keyspace: Keyspace?,
    _ expiry: Expiry = .never, _ row: IndexRow? = nil
  ) {
    writeCount += 1
    var expiry = expiry
    if expiry == .unchanged, let earlier = self[name].writes[key] {
      expiry = earlier.value == nil ? .never : earlier.expiry
    }
    self[name].writes[key] = Write(value: value, expiry: expiry, row: row, number: writeCount)
    // One of several handles may ask for order.
    let wantsOrder = self[name].keyspace?.wantsOrder == true
    if !wantsOrder { self[name].keyspace = keyspace }
  }

  subscript(keyspace: String) -> Part {
    get { parts[keyspace] ?? Part(snapshot: snapshot.keyspace(named: keyspace)) }
    _modify {
      let snapshot = snapshot
      yield &parts[keyspace, default: Part(snapshot: snapshot.keyspace(named: keyspace))]
    }
  }

  /// Whether nothing is to be written. The reads are then those of one moment, and need no look.
  var isReadOnly: Bool { parts.values.allSatisfy(\.writes.isEmpty) }

  /// Adds the writes to a batch, in the order of the calls.
  func write(to batch: inout WriteBatch, of store: Store) throws(StoreError) {
    var writes = parts.flatMap { name, part in
      let keyspace = part.keyspace ?? Keyspace(store: store, name: name)
      return part.writes.map { (keyspace, $0.key, $0.value) }
    }
    // Records may exchange values of a unique index.
    let isExchange = writes.contains { $0.2.row?.hasUniqueValues == true }
    if isExchange {
      let all = writes
      writes = []
      for (keyspace, key, write) in all {
        let isDelete = write.value == nil
        if try batch.beginExchange(ofKey: key, in: keyspace, isDelete: isDelete) {
          writes.append((keyspace, key, write))
        }
      }
    }
    for (keyspace, key, write) in writes.sorted(by: { $0.2.number < $1.2.number }) {
      if let value = write.value {
        try batch.set(
          value, forKey: key, in: keyspace, expiring: write.expiry, row: write.row)
      } else if isExchange {
        try batch.endExchange(deleting: key, in: keyspace)
      } else {
        try batch.removeValue(forKey: key, in: keyspace)
      }
    }
  }
}

extension EngineState {
  /// Returns the first read of a transaction that has another answer now; nil when there is none.
  ///
  /// The caller keeps all other writers out, and this process knows their writes.
  ///
  /// - Parameter isSameState: whether the state is the one of which the snapshot was taken, and was
  ///   not read again. Then the store is unchanged when its last sequence number is.
  /// - Complexity: O(1) when nothing was written since the transaction began; otherwise a look-up
  ///   for each key that was read, and a comparison for each page of a range that is unchanged.
  mutating func conflict(
    with contents: TransactionContents, isSameState: Bool
  ) throws(StoreError) -> StoreError.Conflict? {
    if isSameState, contents.snapshot.state != nil,
      contents.snapshot.sequence.rawValue == log.lastSequence
    {
      return nil
    }
    for (name, part) in contents.parts {
      let id = keyspaces.id(of: name)
      for (key, sequence) in part.reads {
        guard try self.sequence(of: key, id, at: part.snapshot.now) != sequence else { continue }
        return StoreError.Conflict(keyspace: name, key: key)
      }
      if let count = part.countAtBeginning {
        guard try visibleCount(of: id, at: part.snapshot.now) == count else {
          return StoreError.Conflict(keyspace: name, key: nil)
        }
      }
      guard let id, !part.ranges.isEmpty else { continue }
      guard live.isOrdered(id) else {
        // There was nothing when the ranges were read. Keys of another task may be there now.
        guard !part.snapshot.isOrdered else {
          throw .indexDamaged("the keyspace '\(name)' is not ordered any more", nil)
        }
        guard try visibleCount(of: id, at: part.snapshot.now) == 0 else {
          return StoreError.Conflict(keyspace: name, key: nil)
        }
        continue
      }
      for range in part.ranges {
        guard let key = try firstDifference(in: range, part.snapshot, id) else { continue }
        return StoreError.Conflict(keyspace: name, key: key)
      }
    }
    return nil
  }

  /// Returns the number of entries of a keyspace, without those that had expired when the
  /// transaction began.
  private mutating func visibleCount(of id: UInt16?, at now: UInt64) throws(StoreError) -> Int {
    guard let id else { return 0 }
    return try figures(of: id).count - (try expiredCount(in: id, at: now))
  }

  /// Returns the number of the operation that has set the value of a key; `.none` when the key does
  /// not exist, or had expired when the transaction began: time that passes is no conflict.
  private mutating func sequence(
    of key: Key, _ id: UInt16?, at now: UInt64
  ) throws(StoreError) -> SequenceNumber {
    guard let id else { return .none }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      guard let found = try found(bytes, id),
        try !log.table.isHidden(found.record, at: found.address, now)
      else { return .none }
      return SequenceNumber(rawValue: found.record.header.sequence)
    }
  }

  /// Compares a range of an ordered keyspace with what a snapshot has of it.
  ///
  /// - Returns: the least key that was inserted, changed or removed; nil when there is none.
  private mutating func firstDifference(
    in range: KeyRange, _ snapshot: Store.Snapshot, _ id: UInt16
  ) throws(StoreError) -> Key? {
    var new = try walk(id, range, .ascending, limit: .max)
    guard let state = snapshot.state, let number = snapshot.number, state.live.isOrdered(number)
    else { return try nextVersion(&new, at: snapshot.now)?.key }
    var old = try state.walk(number, range, .ascending)
    while true {
      if new != nil, old != nil { new?.skipCommon(live.trees, &old!, state.live.trees) }
      let now = try nextVersion(&new, at: snapshot.now)
      let before = try state.nextVersion(&old)
      if now == nil, before == nil { return nil }
      if now?.sequence == before?.sequence { continue }
      return [now?.key, before?.key].compactMap { $0 }.min()
    }
  }

  /// Returns the next entry of a walk that had not expired at a time.
  private func nextVersion(
    _ walk: inout RangeWalk?, at now: UInt64
  ) throws(StoreError) -> (key: Key, sequence: UInt64)? {
    while let address = walk?.next(live.trees) {
      let record = try log.table.record(at: address)
      if try log.table.isHidden(record, at: address, now) { continue }
      return (Key([UInt8](record.key)), record.header.sequence)
    }
    return nil
  }
}

extension SnapshotState {
  /// Returns the next entry of a walk that had not expired when the snapshot was taken.
  fileprivate func nextVersion(
    _ walk: inout RangeWalk?
  ) throws(StoreError) -> (key: Key, sequence: UInt64)? {
    try reading { () throws(StoreError) in
      while let address = walk?.next(live.trees) {
        let record = try segments.record(at: address)
        if try segments.isHidden(record, at: address, now) { continue }
        return (Key([UInt8](record.key)), record.header.sequence)
      }
      return nil
    }
  }
}
