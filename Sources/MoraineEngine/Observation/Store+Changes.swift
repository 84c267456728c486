import MoraineFormat
import Synchronization

extension Store {
  /// Returns the place at which a feed begins; nil when the store is closed or the task was
  /// cancelled.
  ///
  /// - Throws: `.cursorDiverged`, `.cursorExpired`.
  func beginFeed(_ start: FeedStart) async throws(StoreError) -> FeedPlace? {
    guard try await catchUpForFeed() else { return nil }
    switch start {
    case .after(let sequence): return FeedPlace(sequence: sequence)
    case .everything:
      let horizon = engine?.log.manifest.feedHorizon.rawValue ?? 0
      return FeedPlace(sequence: 0, deletesNotNeededThrough: horizon)
    case .cursor(let cursor):
      guard engine != nil else {
        throw StoreError(
          .cursorDiverged, "the cursor's store does not exist any more; begin again without it")
      }
      try engine!.check(cursor)
      return FeedPlace(sequence: cursor.sequence.rawValue)
    }
  }

  /// Applies the records that other processes have written. Waits while the store is suspended.
  ///
  /// - Returns: false when the store was closed or the task cancelled.
  private func catchUpForFeed() async throws(StoreError) -> Bool {
    while true {
      if isClosed {
        try throwRefusal()
        return false
      }
      if isSuspended {
        guard await waitWhileSuspended() else { return false }
        try checkNotReplaced()
      }
      do throws(StoreError) { try await catchUp() } catch {
        guard isClosed || isSuspended else { throw error }
      }
      if !isClosed, !isSuspended { return true }
    }
  }

  /// Returns the next changes after a place, and moves the place past them. Returns none when the
  /// store is closed or suspended, or does not exist yet.
  func readChanges(
    _ place: inout FeedPlace, keyspace: String?
  ) async throws(StoreError) -> [Store.Change] {
    do throws(StoreError) { return try await readOpenChanges(&place, keyspace: keyspace) } catch {
      guard isClosed || isSuspended else { throw error }
      return []
    }
  }

  private func readOpenChanges(
    _ place: inout FeedPlace, keyspace: String?
  ) async throws(StoreError) -> [Store.Change] {
    try await catchUp()
    guard !isClosed, engine != nil else { return [] }
    try checkProven()
    try engine!.checkHorizon(place)
    guard let keyspace else { return try await readChanges(&place, nil) }
    guard let id = engine!.keyspaces.id(of: keyspace) else {
      place.sequence = max(place.sequence, engine!.log.lastSequence)
      return []
    }
    return try await readChanges(&place, id)
  }

  private func readChanges(
    _ place: inout FeedPlace, _ keyspace: UInt16?
  ) async throws(StoreError) -> [Store.Change] {
    var next = place
    let changes = try await reading { (engine) throws(StoreError) in
      next = place
      try engine.checkHorizon(next)
      return try engine.readChanges(&next, keyspace: keyspace)
    }
    place = next
    return changes ?? []
  }

  /// Waits for an operation after the sequence number.
  ///
  /// - Returns: false when the store was closed or the task cancelled.
  /// - Throws: `.storeReplaced`, because the files of this store will not change any more.
  func waitForChange(after sequence: UInt64) async throws(StoreError) -> Bool {
    if isClosed || Task.isCancelled { return false }
    try checkNotReplaced()
    wakeWhenReplaced()
    if isShared {
      if await watchOthers() { return true }
      // A close or a poisoning during that wait has woken no task.
      if isClosed || Task.isCancelled { return false }
      try checkNotReplaced()
    }
    if let engine = engine?.log.lastSequence, engine > sequence { return true }
    await parkForChange()
    if isClosed || Task.isCancelled { return false }
    try checkNotReplaced()
    return true
  }

  /// Waits for the end of a suspension, or until the store finds other files than its own.
  ///
  /// - Returns: false when the store was closed or the task cancelled.
  package func waitWhileSuspended() async -> Bool {
    while isSuspended, !isClosed, !Task.isCancelled, !wasReplaced { await parkForChange() }
    return !isClosed && !Task.isCancelled
  }

  /// Waits for ``wakeForChange()`` or for the cancellation of the task.
  private func parkForChange() async {
    let id = readers.waiters.nextID()
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        if Task.isCancelled {
          continuation.resume()
        } else {
          readers.waiters.add(continuation, as: id)
        }
      }
    } onCancel: {
      Task { await self.stopWaiting(id) }
    }
  }

  /// Checks that the names in the directory lead to this store's files.
  ///
  /// - Throws: `.storeReplaced`.
  nonisolated func checkPresence() async throws(StoreError) {
    try await runBlocking { [pipeline] () throws(StoreError) in try pipeline.checkPresence() }
  }

  /// - Throws: `.storeReplaced` when the store's files are known to be replaced.
  func checkNotReplaced() throws(StoreError) {
    guard pipeline.hasPoison, let poison = pipeline.poison else { return }
    if poison.code == .storeReplaced { throw poison }
  }

  /// Wakes the tasks that wait for changes when the store's files are replaced. A store has one
  /// task for this. It ends when the store is poisoned, closed or released.
  private func wakeWhenReplaced() {
    guard readers.beginsToAwaitPoison() else { return }
    Task { [weak self, pipeline] in
      if await pipeline.waitUntilPoisoned() != nil { await self?.wakeForChange() }
    }
  }

  /// Makes compaction wait for iterators without a time limit; for tests on a busy machine.
  package nonisolated func waitForIteratorsForever() {
    observers.pins.patienceNanoseconds.store(.max, ordering: .relaxed)
  }

  /// Makes compaction wait for no iterator; for tests.
  package nonisolated func waitForIteratorsNever() {
    observers.pins.patienceNanoseconds.store(0, ordering: .relaxed)
  }

  /// Number of tasks that wait for a change; for tests.
  package var watcherCount: Int { readers.waiters.count }

  private func stopWaiting(_ id: UInt64) { readers.waiters.wake(id) }
}

extension EngineState {
  /// Limits of one step of a feed.
  private static let feedLimits = FeedLimits(count: 256, bytes: 1 << 20)

  /// Reads the next changes from the log.
  ///
  /// - Parameter keyspace: nil for the unnamed keyspace and all keyspaces that have a name.
  /// - Returns: at most 256 changes, from at most about a megabyte. An empty array may mean that
  ///   this part of the log has no change of the keyspace.
  func readChanges(
    _ place: inout FeedPlace, keyspace: UInt16?
  ) throws(StoreError) -> [Store.Change] {
    var result: [Store.Change] = []
    for address in try nextOperations(
      &place, keyspace: keyspace, through: .max, Self.feedLimits)
    {
      let record = try operation(at: address)
      guard let name = keyspaces.nameInFeeds(of: record.header.keyspace) else { continue }
      result.append(try change(record, at: address, in: name))
    }
    return result
  }

  private func change(
    _ record: RecordReference, at address: Address, in keyspace: String
  ) throws(StoreError) -> Store.Change {
    let header = record.header
    let key = Key([UInt8](record.key))
    return Store.Change(
      keyspace: keyspace, key: key,
      value: header.kind.effect == .sets ? try log.table.value(of: record, at: address) : nil,
      sequence: SequenceNumber(rawValue: header.sequence), cursor: cursor(at: header.sequence),
      expiryMilliseconds: record.expiryMilliseconds ?? 0)
  }

  func cursor(at sequence: UInt64) -> ChangeCursor {
    let life = log.manifest.epochs.last { $0.firstSequence.rawValue <= sequence }
    return ChangeCursor(
      storeID: log.manifest.storeID, epoch: log.manifest.epoch, life: life?.instanceID,
      cut: log.manifest.cuts.last?.number ?? 0,
      sequence: sequence)
  }

  /// - Throws: `.cursorDiverged`, `.cursorExpired`.
  func check(_ cursor: ChangeCursor) throws(StoreError) {
    guard cursor.storeID == log.manifest.storeID else {
      throw StoreError(
        .cursorDiverged, "the cursor belongs to another store; begin again without it")
    }
    let life = log.manifest.epochs.first { $0.instanceID == cursor.life }
    let isKnown = cursor.life == nil || life != nil
    // A later life may have begun at an earlier moment than the one before it.
    let later = log.manifest.epochs.filter { $0.epoch > life?.epoch ?? cursor.epoch }
    let isOfThisHistory =
      isKnown && cursor.epoch <= log.manifest.epoch
      && later.allSatisfy { cursor.sequence < $0.firstSequence }
    let isLost = log.manifest.cuts.contains {
      $0.number > cursor.cut ?? .max && $0.lastSequence < cursor.sequence
    }
    guard isOfThisHistory, !isLost, cursor.sequence.rawValue <= log.lastSequence else {
      throw StoreError(
        .cursorDiverged,
        "this store lost the cursor's changes in a crash or a restore; begin again without it")
    }
    try checkHorizon(FeedPlace(sequence: cursor.sequence.rawValue))
  }

  /// - Throws: `.cursorExpired` when compaction may have dropped a delete after the place.
  func checkHorizon(_ place: FeedPlace) throws(StoreError) {
    let horizon = log.manifest.feedHorizon.rawValue
    guard horizon > max(place.sequence, place.deletesNotNeededThrough) else { return }
    throw StoreError(
      .cursorExpired,
      "compaction dropped deletes up to sequence \(horizon), the cursor is at \(place.sequence); "
        + "read the whole contents again")
  }
}
