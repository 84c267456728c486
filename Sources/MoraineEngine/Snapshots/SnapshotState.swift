import MoraineFormat
import MoraineStorage
import Synchronization

/// State that all copies of a snapshot share.
///
/// Safety of `@unchecked Sendable`: the caller that creates the state has exclusive access to the
/// engine, and nothing in the state changes afterwards. The state reads three kinds of memory. The
/// first is its own tables. The second is the pages of the index, which no thread writes while the
/// snapshot is alive: see ``IndexMemory``. The third is the records in mapped segments, from the
/// first record to the end that the segment had when the snapshot was taken: a log is never written
/// before its end, and `segments` keeps the mapping, even when the file is removed. Where segments
/// are not mapped, `turn` lets one reader at a time use the files and their buffer. Memory that is
/// written before a snapshot is passed to another thread is visible to that thread, as with every
/// `Sendable` value.
final class SnapshotState: @unchecked Sendable {
  let live: FrozenRecords
  let segments: SnapshotSegments
  let sequence: SequenceNumber
  /// The time at which the snapshot was taken, in milliseconds since 1970: later it hides no other
  /// records than then.
  let now: UInt64
  private let keyspaces: [String: UInt16]
  let isMapped: Bool
  private let turn = Mutex<Void>(())
  private let hold: SnapshotFilePin

  init(_ engine: inout EngineState, _ live: LiveSnapshots) throws(StoreError) {
    try engine.validateAllPages()
    let frozen = FrozenRecords(&engine.live)
    // The end of the last snapshot returns the memory that was taken ahead. So this one is first.
    try engine.live.secureMoves()
    self.live = frozen
    segments = SnapshotSegments(engine.log.table, engine.directory)
    now = engine.log.table.hasExpiries ? engine.now : 0
    sequence = SequenceNumber(rawValue: engine.log.lastSequence)
    keyspaces = engine.keyspaces.numbers
    isMapped = segments.isMapped
    hold = SnapshotFilePin(live)
  }

  /// Returns the number of a keyspace, or nil when nothing had been written to the keyspace.
  func number(of keyspace: String) -> UInt16? { keyspace.isEmpty ? 0 : keyspaces[keyspace] }

  @inline(__always)
  func reading<Value: Sendable>(
    _ body: () throws(StoreError) -> Value
  ) throws(StoreError) -> Value {
    if isMapped { return try body() }
    return try inTurn(body)
  }

  /// Runs the body while no other reader does.
  func inTurn<Value>(_ body: () throws(StoreError) -> Value) throws(StoreError) -> Value {
    let result: Result<Value, StoreError> = turn.withLock { _ in
      do throws(StoreError) { return .success(try body()) } catch { return .failure(error) }
    }
    return try result.get()
  }

  @inline(__always)
  func value(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, hash: UInt64
  ) throws(StoreError) -> [UInt8]? {
    guard let found = try found(key, keyspace, hash: hash) else { return nil }
    try segments.verify(found.record, at: found.address)
    return try segments.value(of: found.record, at: found.address)
  }

  /// Returns the record of a key, unless it had expired. Its checksum is not verified.
  @inline(__always)
  func found(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, hash: UInt64
  ) throws(StoreError) -> FoundRecord? {
    guard let found = try record(key, keyspace, hash: hash),
      try !segments.isHidden(found.record, at: found.address, now)
    else { return nil }
    return found
  }

  /// Returns the record of a key, whether it has expired or not. Its checksum is not verified.
  @inline(__always)
  func record(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, hash: UInt64
  ) throws(StoreError) -> FoundRecord? {
    if live.isOrdered(keyspace) { return try orderedRecord(key, keyspace) }
    return try segments.find(key, keyspace, hash: hash, in: live.index).map {
      FoundRecord(record: $0.record, address: $0.address)
    }
  }

  // Not a part of the look-ups in the hash index, which would become slower.
  @inline(never)
  private func orderedRecord(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> FoundRecord? {
    try segments.find(key, keyspace, in: live.trees, live.trees.root(keyspace))
  }

  /// Returns a value in place when it is stored uncompressed in a mapped segment, or else a copy of
  /// it.
  func storedValue(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = segments.hash(key, keyspace)
    guard isMapped else {
      return try reading { () throws(StoreError) in
        try value(key, keyspace, hash: hash)
      }.map { .copy($0) }
    }
    guard let found = try found(key, keyspace, hash: hash) else { return nil }
    try segments.verify(found.record, at: found.address)
    return try segments.storedValue(of: found)
  }
}

/// The live records of a store at one moment. Any thread that has them may read them.
struct FrozenRecords: ~Copyable, LiveRecords {
  let index: FrozenIndex
  let trees: FrozenTrees

  /// - Complexity: O(pages of the index), eight bytes for each.
  init(_ live: inout LiveIndex) {
    index = live.index.freeze()
    trees = live.trees.freeze()
  }

  /// Number of live records.
  var count: Int { index.count + trees.count }

  @inline(__always)
  func prefetch(_ hash: UInt64) { index.prefetch(hash) }

  @inline(__always)
  func isOrdered(_ keyspace: UInt16) -> Bool { trees.isOrdered(keyspace) }

  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool { index.holds(address, hash) }

  func holdsOrdered(_ address: Address, _ record: RecordReference) -> Bool {
    trees.holds(address, TreeKey(record.key), trees.root(record.header.keyspace))
  }
}

/// The owner of a snapshot's state. The store holds a weak reference to the handle, so that it can
/// return the same snapshot again. Weak references make reference counting slower, so the store
/// does not refer to the state itself.
final class SnapshotHandle: Sendable {
  let state: SnapshotState
  /// The count of the states that the process had read when it took the snapshot; see
  /// ``PeerAccess/readStateCount``.
  let stateCount: UInt64

  init(_ state: SnapshotState, stateCount: UInt64) {
    self.state = state
    self.stateCount = stateCount
  }
}

/// A pin on the files that compaction replaces: they are not removed while the pin exists.
final class SnapshotFilePin: Sendable {
  private let live: LiveSnapshots
  /// The moment at which the snapshot was taken, from ``LiveSnapshots/enter()``.
  private let moment: UInt64

  init(_ live: LiveSnapshots) {
    self.live = live
    moment = live.enter()
  }

  deinit { live.leave(moment) }
}

/// The snapshots of a store that are alive, and the replaced files that are kept for them.
final class LiveSnapshots: Sendable {
  /// Files that one compaction replaced.
  private struct Batch {
    /// Snapshots of this moment or of an earlier one may read the files.
    let moment: UInt64
    let names: [String]
    let remove: @Sendable ([String]) -> Void
  }

  private struct State {
    /// Number of pins so far.
    var pinCount: UInt64 = 0
    /// Number of batches so far.
    var moment: UInt64 = 0
    /// For each moment, the number of its snapshots that are alive.
    var counts: [UInt64: Int] = [:]
    /// Batches in ascending order of their moments.
    var batches: [Batch] = []

    /// Removes and returns the batches whose files no snapshot can read any more.
    mutating func takeFree() -> [Batch] {
      let first = counts.keys.min() ?? .max
      let free = batches.prefix { $0.moment < first }
      batches.removeFirst(free.count)
      return Array(free)
    }
  }

  private let state = Mutex(State())
  private let forkGeneration = CurrentProcess.forkGeneration

  /// The number of pins that were ever made.
  var pinCount: UInt64 { state.withLock { $0.pinCount } }

  /// - Returns: the current moment, for ``leave(_:)``.
  func enter() -> UInt64 {
    state.withLock { state in
      state.pinCount += 1
      state.counts[state.moment, default: 0] += 1
      return state.moment
    }
  }

  /// Ends a snapshot, on any thread. The `remove` functions of the batches that no snapshot can
  /// read any more leave the work to another thread.
  ///
  /// In a forked child it does nothing: the files belong to the parent, whose snapshots read them.
  func leave(_ moment: UInt64) {
    guard CurrentProcess.forkGeneration == forkGeneration else { return }
    let free = state.withLock { state in
      let left = (state.counts[moment] ?? 1) - 1
      state.counts[moment] = left == 0 ? nil : left
      return left == 0 ? state.takeFree() : []
    }
    for batch in free { batch.remove(batch.names) }
  }

  /// Returns the files that the caller must remove now. The other files are passed to `remove` when
  /// no snapshot can open them any more. Files that are left when the process ends are removed by
  /// the next opening of the store.
  func removable(
    _ names: [String], _ remove: @escaping @Sendable ([String]) -> Void
  ) -> [String] {
    state.withLock { state in
      if state.counts.isEmpty { return names }
      state.batches.append(Batch(moment: state.moment, names: names, remove: remove))
      state.moment += 1
      return []
    }
  }
}

/// The segments of a snapshot. Their mappings exist as long as this value.
struct SnapshotSegments: ~Copyable, RecordSource {
  let count: Int
  let views: UnsafeMutablePointer<SegmentView>
  let hashKey: HashKey
  /// The slots in the order of the log.
  let order: [Int]
  let files: SnapshotFiles
  private let infos: [SegmentInfo]

  init(_ table: borrowing SegmentTable, _ directory: any StorageDirectory) {
    count = table.count
    views = .allocate(capacity: max(1, count))
    views.initialize(from: table.views, count: count)
    infos = table.infos
    hashKey = table.hashKey
    order = table.readingOrder
    files = SnapshotFiles(directory, mayPark: table.files.mayPark)
  }

  deinit { views.deallocate() }

  /// Returns the end of the part of a segment that can be read when records are appended there.
  func capacity(of slot: Int) -> Int { infos[slot].mapping?.lengthBytes ?? .max }

  /// Whether all segments are mapped.
  var isMapped: Bool { order.allSatisfy { views[$0].base != nil } }

  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  func dictionary(of slot: Int) -> [UInt8] { infos[slot].dictionary }

  func mapping(of slot: Int) -> (any FileMapping)? { infos[slot].mapping }

  /// Returns the value of a verified record: in place when it is stored uncompressed in a mapped
  /// segment, or else a copy of it.
  func storedValue(of found: FoundRecord) throws(StoreError) -> StoredValue {
    if found.record.header.codec == .raw, let mapping = mapping(of: found.address.slot) {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try value(of: found.record, at: found.address))
  }

  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    let bytes = try files.read(
      count, at: address.offset, of: address.slot, named: fileName(address.slot))
    guard let bytes else { throw damaged(address, "the file ends before its last record") }
    return bytes
  }

  func announce(_ part: LogPart) throws(StoreError) {
    let end = min(part.end, views[part.slot].end)
    if let mapping = infos[part.slot].mapping {
      mapping.announceRead(from: part.start, to: end)
    } else {
      try files.announce(from: part.start, to: end, of: part.slot, named: fileName(part.slot))
    }
  }

  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8] {
    try value(of: record, at: address, dictionary: dictionary(of: address.slot))
  }
}

/// The open files of a snapshot whose segments are not mapped, and the buffer for their bytes. One
/// reader at a time uses them: the reader holds `turn` until it has used the bytes.
final class SnapshotFiles {
  private let files: FileCache
  private let scratch = ScratchBuffer()

  init(_ directory: any StorageDirectory, mayPark: Bool) {
    files = FileCache(directory: directory, mayPark: mayPark)
  }

  /// Begins to read bytes from the disk, without waiting for them.
  func announce(
    from start: Int, to end: Int, of slot: Int, named name: String
  ) throws(StoreError) {
    let file = try files.file(for: slot, named: name)
    try storing { () throws(StorageError) in try file.announceRead(from: start, to: end) }
  }

  /// - Returns: nil when the file ends before the last of the bytes.
  func read(
    _ count: Int, at offset: Int, of slot: Int, named name: String
  ) throws(StoreError) -> UnsafeRawPointer? {
    let target = scratch.reserve(count)
    let file = try files.file(for: slot, named: name)
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(offset))
    }
    return got == count ? target.baseAddress.map { UnsafeRawPointer($0) } : nil
  }
}
