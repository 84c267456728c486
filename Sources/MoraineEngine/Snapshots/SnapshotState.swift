import MoraineFormat
import MoraineStorage
import Synchronization

/// What all copies of a snapshot share.
///
/// Safety of `@unchecked Sendable`: it is made by the one who has the engine, and nothing in it
/// changes afterwards. It reads three kinds of memory. Its own tables. The pages of the index,
/// which nobody writes while it lives: see ``IndexMemory``. And records in mapped segments, from
/// their first one to the end that the segment had at the moment: a log is never written before its
/// end, and the mapping is kept by `segments` whatever becomes of the file. Where segments are not
/// mapped, `turn` lets one reader at a time use the files and their buffer. What is written before
/// a snapshot is handed to another thread is seen there, as with anything that is `Sendable`.
final class SnapshotState: @unchecked Sendable {
  let index: FrozenIndex
  let segments: SnapshotSegments
  let sequence: SequenceNumber
  private let keyspaces: [String: UInt16]
  let isMapped: Bool
  private let turn = Mutex<Void>(())
  private let hold: SnapshotFilePin

  init(_ engine: inout EngineState, _ live: LiveSnapshots) throws(StoreError) {
    try engine.validateAllPages()
    try engine.live.index.prepareToFreeze()
    index = engine.live.index.freeze()
    segments = SnapshotSegments(engine.log.table, engine.directory)
    sequence = SequenceNumber(rawValue: engine.log.lastSequence)
    keyspaces = engine.keyspaces.numbers
    isMapped = segments.isMapped
    hold = SnapshotFilePin(live)
  }

  /// Nil when nothing had been written to it.
  func number(of keyspace: String) -> UInt16? { keyspace.isEmpty ? 0 : keyspaces[keyspace] }

  @inline(__always)
  func reading<Value: Sendable>(
    _ body: () throws(StoreError) -> Value
  ) throws(StoreError) -> Value {
    if isMapped { return try body() }
    return try turn.withLock { (_) throws(StoreError) in try body() }
  }

  @inline(__always)
  func value(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, hash: UInt64
  ) throws(StoreError) -> [UInt8]? {
    guard let found = try segments.find(key, keyspace, hash: hash, in: index) else { return nil }
    try segments.verify(found.record, at: found.address)
    return try segments.value(of: found.record, at: found.address)
  }

  /// Where it lies, when it lies somewhere as it is.
  func storedValue(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = segments.hash(key, keyspace)
    guard isMapped else {
      return try reading { () throws(StoreError) in
        try value(key, keyspace, hash: hash)
      }.map { .copy($0) }
    }
    guard let found = try segments.find(key, keyspace, hash: hash, in: index) else { return nil }
    try segments.verify(found.record, at: found.address)
    if found.record.header.codec == .raw,
      let mapping = segments.mapping(of: found.address.slot)
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try segments.value(of: found.record, at: found.address))
  }
}

/// What keeps the state of a snapshot. The store refers to it weakly, to give the same snapshot
/// again: an object that weak references were made to counts its references more slowly, so that is
/// not the state.
final class SnapshotHandle: Sendable {
  let state: SnapshotState

  init(_ state: SnapshotState) { self.state = state }
}

/// Keeps the files that compaction replaces, as long as it lives.
final class SnapshotFilePin: Sendable {
  private let live: LiveSnapshots
  /// When the snapshot was taken, counted in compactions.
  private let moment: UInt64

  init(_ live: LiveSnapshots) {
    self.live = live
    moment = live.enter()
  }

  deinit { live.leave(moment) }
}

/// The snapshots of a store that are alive, and the files that are kept for them.
final class LiveSnapshots: Sendable {
  /// Files that one compaction replaced.
  private struct Batch {
    /// Snapshots of this moment, or of an earlier one, may read them.
    let moment: UInt64
    let names: [String]
    let remove: @Sendable ([String]) -> Void
  }

  private struct State {
    /// How often files were replaced.
    var moment: UInt64 = 0
    /// How many snapshots of a moment are alive.
    var counts: [UInt64: Int] = [:]
    /// By their moments, which rise.
    var batches: [Batch] = []

    /// Takes out the files that no snapshot may read any more.
    mutating func takeFree() -> [Batch] {
      let first = counts.keys.min() ?? .max
      let free = batches.prefix { $0.moment < first }
      batches.removeFirst(free.count)
      return Array(free)
    }
  }

  private let state = Mutex(State())

  /// - Returns: the moment, for ``leave(_:)``.
  func enter() -> UInt64 {
    state.withLock { state in
      state.counts[state.moment, default: 0] += 1
      return state.moment
    }
  }

  /// On any thread; what can be removed then is removed elsewhere.
  func leave(_ moment: UInt64) {
    let free = state.withLock { state in
      let left = (state.counts[moment] ?? 1) - 1
      state.counts[moment] = left == 0 ? nil : left
      return left == 0 ? state.takeFree() : []
    }
    for batch in free { batch.remove(batch.names) }
  }

  /// Which files the caller is to remove; the others are given to `remove` when no snapshot may
  /// open them any more. What is left when the process ends, the next opening removes.
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
