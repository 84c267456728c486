import MoraineFormat
import MoraineStorage
import Synchronization

/// The present state of a store, for readers that do not call the actor: the index as it was
/// frozen, and the records since then.
///
/// Safety of `@unchecked Sendable`: the frozen state is that of a snapshot; see ``SnapshotState``.
/// The records since then are found by the protocol of ``RecentRecords``; they lie after the end
/// that the active segment had at the freezing, and each was written before its address was
/// published. Where segments are not mapped, one reader at a time reads.
final class LiveView: @unchecked Sendable {
  private let state: SnapshotState?
  private let recent: RecentRecords
  private let clock: ExpiryClock
  /// The error that every reader gets instead.
  private let failure: StoreError?

  /// Freezes the index of a store, and makes the store add all later records to this view.
  ///
  /// - Parameter recentKeys: the least number of keys for which later records have room.
  /// - Throws: the errors of ``SnapshotState``.
  init(
    _ engine: inout EngineState, _ live: LiveSnapshots, recentKeys: Int
  ) throws(StoreError) {
    let state = try SnapshotState(&engine, live)
    self.state = state
    recent = engine.beginRecentRecords(atLeast: recentKeys) { state.segments.capacity(of: $0) }
    clock = engine.observers.clock
    failure = nil
  }

  /// Creates the view of a store that cannot be read, or that has no record yet.
  init(_ failure: StoreError?, _ clock: ExpiryClock) {
    (state, recent) = (nil, RecentRecords(limit: 1, end: 0))
    (self.failure, self.clock) = (failure, clock)
  }

  /// Calls the body with the record of a key, verified; with nil when the key does not exist.
  ///
  /// - Returns: `.again` when the look-up met a batch that was being added.
  /// - Throws: the errors of ``Store/Reader/value(forKey:)``.
  @inline(__always)
  func withRecord<Value>(
    _ key: UnsafeRawBufferPointer, _ keyspace: String,
    _ body: (FoundRecord?, borrowing SnapshotSegments) throws(StoreError) -> Value?
  ) throws(StoreError) -> LookUp<Value> {
    if let failure { throw failure }
    guard let state, let number = state.number(of: keyspace) else { return .done(nil) }
    if state.isMapped { return try find(key, number, state, body) }
    return try state.inTurn { () throws(StoreError) in try find(key, number, state, body) }
  }

  @inline(__always)
  private func find<Value>(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, _ state: SnapshotState,
    _ body: (FoundRecord?, borrowing SnapshotSegments) throws(StoreError) -> Value?
  ) throws(StoreError) -> LookUp<Value> {
    let hash = state.segments.hash(key, keyspace)
    let version = recent.beginLookUp()
    let found = try record(key, keyspace, hash, state)
    guard recent.endLookUp(version) else { return .again }
    guard let found, !found.record.hasExpired(at: clock.now()) else {
      return .done(try body(nil, state.segments))
    }
    return .done(try body(found, state.segments))
  }

  /// Returns the record of a key, verified, whether it has expired or not.
  @inline(__always)
  private func record(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, _ hash: UInt64, _ state: SnapshotState
  ) throws(StoreError) -> FoundRecord? {
    if let address = recent.address(of: hash) {
      // Relaxed: the writer has stored the end before the address, which was acquired.
      let end = recent.end.load(ordering: .relaxed)
      let record = try state.segments.record(at: address, before: end)
      try state.segments.verify(record, at: address)
      // Another key with this hash was written, and this key was not.
      if record.header.keyspace == keyspace, record.key.elementsEqualFast(key) {
        return record.header.kind.effect == .sets
          ? FoundRecord(record: record, address: address) : nil
      }
    }
    guard let found = try state.record(key, keyspace, hash: hash) else { return nil }
    try state.segments.verify(found.record, at: found.address)
    return found
  }
}

/// The result of a look-up that may have met a change.
enum LookUp<Value> {
  case done(Value?)
  case again
}

/// The view that the readers of a store use now, and those that some may still use.
///
/// Safety of `@unchecked Sendable`: the words of `epochs` are atomic, and `retirement` has a lock.
/// A view is released only after every reader that could have it has left: see
/// ``ReaderEpochs``.
final class LiveViews: @unchecked Sendable {
  private struct Retirement {
    /// Number of the handles of readers.
    var readerCount = 0
    /// Views that were replaced since `leaving` was begun.
    var waiting: [Unmanaged<LiveView>] = []
    /// Views whose readers are being watched.
    var leaving: [Unmanaged<LiveView>] = []
    var progress = EpochProgress.begun
  }

  private let epochs = ReaderEpochs()
  private let retirement = Mutex(Retirement())
  /// Whether a view waits for its readers.
  private let hasRetired = Atomic<Bool>(false)
  /// The least number of keys that are written before the index is frozen again. Tests lower it.
  let recentKeys = Atomic<Int>(1 << 13)
  private let isApplyingNews = Atomic<Bool>(false)
  private let forkGeneration = CurrentProcess.forkGeneration

  deinit {
    // In a forked child the ends of readers are not counted: see ``ReaderHandle``.
    guard CurrentProcess.forkGeneration == forkGeneration else { return }
    retirement.withLock { state in
      precondition(state.readerCount == 0, "a reader outlives its store")
      for view in state.leaving + state.waiting { view.release() }
    }
    Self.view(epochs.load(relaxed: .current))?.release()
  }

  private static func view(_ bits: UInt64) -> Unmanaged<LiveView>? {
    UnsafeRawPointer(bitPattern: UInt(bits)).map { Unmanaged.fromOpaque($0) }
  }

  /// Calls the body while the lock is held. Afterwards looks at the counts for the readers that
  /// left during that time, and could not look themselves: see ``ReaderEpochs``.
  private func locked<Result: Sendable>(_ body: (inout Retirement) -> Result) -> Result {
    let result = retirement.withLock { body(&$0) }
    if epochs.takeRequest() { releaseRetired() }
    return result
  }

  /// Whether the store has readers.
  var areWanted: Bool { locked { $0.readerCount > 0 } }

  /// Calls the body while the lock is held, as a thread of a parent may hold it during a fork; for
  /// tests.
  func whileLocked(_ body: () -> Void) { locked { _ in body() } }

  /// Records a reader.
  ///
  /// - Returns: whether it is the only one.
  func begin() -> Bool {
    locked { state in
      state.readerCount += 1
      return state.readerCount == 1
    }
  }

  /// Records the end of a reader. The last one ends the view.
  func end() {
    let released = locked { state in
      precondition(state.readerCount > 0, "a reader ends twice")
      state.readerCount -= 1
      if state.readerCount == 0 { replace(by: nil, &state) }
      return advance(&state)
    }
    for view in released { view.release() }
  }

  /// Replaces the view, unless the last reader has ended. Only the store's actor calls this
  /// function.
  func publish(_ view: LiveView) {
    let released = locked { state in
      if state.readerCount > 0 { replace(by: view, &state) }
      return advance(&state)
    }
    for view in released { view.release() }
  }

  private func replace(by view: LiveView?, _ state: inout Retirement) {
    let bits = view.map { UInt64(UInt(bitPattern: Unmanaged.passRetained($0).toOpaque())) } ?? 0
    // Before the exchange: a reader that leaves the old view later sees the flag.
    hasRetired.store(true, ordering: .relaxed)
    if let old = Self.view(epochs.replace(by: bits)) { state.waiting.append(old) }
  }

  /// Returns the views that no reader uses any more.
  private func advance(_ state: inout Retirement) -> [Unmanaged<LiveView>] {
    var released: [Unmanaged<LiveView>] = []
    while true {
      if state.leaving.isEmpty {
        if state.waiting.isEmpty {
          hasRetired.store(false, ordering: .releasing)
          return released
        }
        (state.leaving, state.waiting) = (state.waiting, [])
        state.progress = .begun
      }
      state.progress = epochs.advance(state.progress, slots: ReaderEpochs.slotCount)
      guard state.progress == .ended else { return released }
      released += state.leaving
      state.leaving = []
    }
  }

  /// Calls the body with the present view, until it does not meet a change.
  ///
  /// - Returns: nil when the body does, or when the store does not exist yet.
  @inline(__always)
  func read<Value>(
    _ body: (LiveView) throws(StoreError) -> LookUp<Value>
  ) throws(StoreError) -> Value? {
    let slot = CPU.threadNumber & (ReaderEpochs.slotCount - 1)
    var tries = 0
    while true {
      let (parity, bits) = epochs.enter(slot: slot)
      let result: Result<LookUp<Value>, StoreError>
      if let view = Self.view(bits) {
        result = view._withUnsafeGuaranteedRef { view in
          do throws(StoreError) { return .success(try body(view)) } catch { return .failure(error) }
        }
      } else {
        result = .success(.done(nil))
      }
      epochs.leave(slot: slot, parity: parity)
      epochs.sequentiallyConsistentFence()
      if hasRetired.load(ordering: .relaxed), epochs.mayBeAwaited(parity: parity) {
        releaseRetired()
      }
      if case .done(let value) = try result.get() { return value }
      // A batch is being added, or the index is being frozen: a millisecond or less, unless the
      // writer's thread does not run.
      tries += 1
      if tries > Self.triesBeforeSleeping {
        SystemClock.sleep(nanoseconds: 50_000)
      } else if tries > Self.triesBeforeYielding {
        CPU.yieldThread()
      }
    }
  }

  /// Returns whether no task applies the writes of other processes yet. The caller begins one.
  func beginToApplyNews() -> Bool {
    !isApplyingNews.exchange(true, ordering: .acquiringAndReleasing)
  }

  func endToApplyNews() { isApplyingNews.store(false, ordering: .releasing) }

  private static let triesBeforeYielding = 100
  private static let triesBeforeSleeping = 1000

  @inline(never)
  private func releaseRetired() {
    repeat {
      epochs.requestLook()
      let looked = retirement.withLockIfAvailable { state in
        // Before the look, which sees that those readers have left that asked.
        _ = epochs.takeRequest()
        return advance(&state)
      }
      // The thread that has the lock takes the request.
      guard let released = looked else { return }
      for view in released { view.release() }
      // Two threads that take each other's requests could go on for ever. When all is released, a
      // request that is left costs one more look later.
    } while hasRetired.load(ordering: .relaxed) && epochs.takeRequest()
  }
}
