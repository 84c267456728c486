public import MoraineFormat
import MoraineStorage

extension Store {
  /// Stores a value that expires under a key. See ``set(_:forKey:durability:)``.
  ///
  /// From its expiry on, no read returns the entry. ``Configuration/expiryGrace`` later, the store
  /// deletes it; the change feed contains that delete. A plain ``set(_:forKey:durability:)`` makes
  /// the entry stay.
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, expiring expiry: Expiry, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await set(
      value, forKey: key, in: KeyspaceRequest(name: "", isOrdered: false), expiring: expiry,
      durability: durability)
  }

  /// The clock by which entries end. See ``Configuration/clock``.
  public nonisolated var clock: any StoreClock { observers.clock.base }

  /// Returns the time at which an entry ends: ``Expiry/never``, or a time in milliseconds; nil when
  /// the key does not exist. ``versionedValue(forKey:)`` returns it with the value.
  ///
  /// - Throws: the errors of ``value(forKey:)``.
  public func expiry(forKey key: Key) async throws(StoreError) -> Expiry? {
    try await expiry(forKey: key, in: "")
  }

  func expiry(forKey key: Key, in keyspace: String) async throws(StoreError) -> Expiry? {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return nil }
    return try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.expiry(bytes, keyspace: id)
      }
    } ?? nil
  }

  /// Returns the expiry of a key, for a caller beside which no other process writes.
  func ownExpiry(
    forKey key: Key, in keyspace: String, at time: UInt64?
  ) throws(StoreError) -> Expiry? {
    try checkUsable()
    guard let id = id(of: keyspace) else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.expiry(bytes, keyspace: id, at: time)
    }
  }

  /// Returns whether a key exists at a time, in milliseconds since 1970, for a caller beside which
  /// no other process writes.
  func ownContains(
    _ key: Key, in keyspace: String, at time: UInt64
  ) throws(StoreError) -> Bool {
    try checkUsable()
    guard let id = id(of: keyspace) else { return false }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.contains(bytes, keyspace: id, at: time)
    }
  }

  /// Returns the operation that has set a key, also when the entry has expired, for a caller beside
  /// which no other process writes; nil when the store has no such record.
  func ownPut(forKey key: Key, in keyspace: String) throws(StoreError) -> RecordedPut? {
    try checkUsable()
    guard let id = id(of: keyspace) else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.recordedPut(of: bytes, keyspace: id)
    }
  }
}

/// The operation that has set a key.
struct RecordedPut: Sendable {
  let sequence: SequenceNumber
  /// Milliseconds since 1970; 0 for an entry that does not expire.
  let expiry: UInt64
}

extension Keyspace {
  /// Stores a value that expires under a key. See ``Store/set(_:forKey:expiring:durability:)``.
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, expiring expiry: Expiry, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await store.set(
      value, forKey: key, in: request, expiring: expiry, durability: durability)
  }

  /// Returns the time at which an entry ends. See ``Store/expiry(forKey:)``.
  public func expiry(forKey key: Key) async throws(StoreError) -> Expiry? {
    try await store.expiry(forKey: key, in: name)
  }
}

/// The deletion of expired entries in the background.
///
/// Part of the store's actor: no other isolation uses it.
final class ReapingState {
  private var task: Task<Void, Never>?
  /// The expiry for which a task waits; `UInt64.max` when none does.
  private(set) var awaited = UInt64.max
  /// The time before which the background does not look for expired entries.
  private(set) var nextLook: UInt64 = 0
  /// The least difference between the clock and its steady time so far, in milliseconds.
  private var baseline: Int64?
  /// The steady time until which nothing is deleted, because the clock was set forward.
  private var heldUntil: UInt64 = 0

  /// Replaces the task that waits.
  ///
  /// - Parameter expiry: the expiry for which the task waits.
  func wait(for expiry: UInt64, _ task: Task<Void, Never>) {
    self.task?.cancel()
    (self.task, awaited) = (task, expiry)
  }

  /// Records that the awaited time has come.
  ///
  /// - Parameter nextLook: the time of the next look, at the earliest.
  func beginLook(next nextLook: UInt64) {
    (task, awaited) = (nil, .max)
    self.nextLook = nextLook
  }

  /// Sets the time of the first look, at the earliest.
  func setFirstLook(_ time: UInt64) { nextLook = time }

  /// Ends the waiting. Nothing is deleted in the background until ``wait(for:_:)``.
  func cancel() {
    task?.cancel()
    (task, awaited) = (nil, .max)
  }

  /// Compares the clock with its steady time.
  ///
  /// - Parameter grace: milliseconds that the clock may gain; 0 for any number.
  /// - Returns: the number of milliseconds by which the clock was set forward; 0 when it was not.
  func jump(of clock: any StoreClock, beyond grace: UInt64) -> UInt64 {
    let steady = clock.steadyMilliseconds
    let difference = Int64(clamping: clock.milliseconds) - Int64(clamping: steady)
    guard let known = baseline, difference > known else {
      baseline = difference
      return 0
    }
    guard grace > 0, difference - known > Int64(clamping: grace) else { return 0 }
    baseline = difference
    heldUntil = steady.addingReportingOverflow(grace).partialValue
    return UInt64(difference - known)
  }

  deinit { task?.cancel() }

  /// Whether nothing may be deleted, because the clock was set forward.
  func isHeld(_ clock: any StoreClock) -> Bool { clock.steadyMilliseconds < heldUntil }
}

// The reaper: it deletes expired entries with ordinary deletes, so that logs, digests, followers
// and backups know nothing of time.
extension Store {
  private static let reapedTogether = 256
  /// Milliseconds between two looks of the background, at least.
  private static let leastInterval: UInt64 = 100

  /// Deletes all entries that expired ``Configuration/expiryGrace`` ago or earlier. The store does
  /// the same in the background, every ``Configuration/reapInterval`` while entries expire.
  ///
  /// - Returns: the number of deleted entries; 0 while the store does not trust its clock, see
  ///   ``StoreEvent/clockJumped(milliseconds:)``.
  /// - Throws: the errors of ``removeValue(forKey:durability:)``; the batches before stay.
  /// - Complexity: O(deleted entries). The first call after opening also reads the segments that
  ///   contain expired entries.
  @discardableResult
  public func removeExpired() async throws(StoreError) -> Int {
    try await checkOpen()
    guard let limit = reapingLimit() else { return 0 }
    var count = 0
    while true {
      try await waitForMoves()
      guard let next = try await reapBatch(through: limit) else { break }
      count += next
      await Task.yield()
    }
    if engine != nil { engine!.log.table.settleExpiries() }
    if count > 0 { send(.entriesExpired(count: count)) }
    return count
  }

  /// The latest expiry of an entry that may be deleted now; nil when nothing may be deleted.
  private func reapingLimit() -> UInt64? {
    let clock = observers.clock.base
    let grace = opener.configuration.expiryGrace.wholeMilliseconds
    let jump = compaction.reaping.jump(of: clock, beyond: grace)
    if jump > 0 { send(.clockJumped(milliseconds: jump)) }
    let now = clock.milliseconds
    guard !compaction.reaping.isHeld(clock), now >= grace else { return nil }
    return now - grace
  }

  /// Waits until no compaction moves records: its output already contains records whose index
  /// entries do not name it yet.
  private func waitForMoves() async throws(StoreError) {
    while engine != nil, engine!.log.table.isRetiring {
      if let poison = pipeline.poison { throw poison }
      await compaction.waitForEnd()
      try checkUsable()
    }
  }

  /// Deletes some expired entries as one batch.
  ///
  /// - Parameter limit: the latest expiry of an entry that is deleted.
  /// - Returns: their number; nil when no other entries have expired.
  func reapBatch(through limit: UInt64) async throws(StoreError) -> Int? {
    let hasGate = try await beginUnit()
    defer { endUnit(hasGate) }
    guard engine != nil else { return nil }
    try engine!.validateAllPages()
    if engine!.log.table.isRetiring { return 0 }
    // One segment at a time: other calls may run in between.
    if try engine!.readNextExpiries(through: limit) { return 0 }
    let (expired, isMore) = try engine!.nextExpired(through: limit, count: Self.reapedTogether)
    if expired.isEmpty { return isMore ? 0 : nil }
    let operations = try deletes(of: expired, through: limit)
    _ = try await withRoom(isDelete: true, isReaping: true, hasGate: hasGate) {
      (engine) throws(StoreError) in
      try engine.commit(operations, isDelete: true, nil)
    }
    compactAfterDeleting()
    return operations.count
  }

  /// Returns the deletes of expired entries. In a store with indexes, a model and its entries are
  /// deleted together: what a close or a crash leaves must be whole if the clock was wrong. Where
  /// that makes the batch long, it leaves entries to the next one.
  private func deletes(
    of expired: [BatchOperations.Place], through limit: UInt64
  ) throws(StoreError) -> BatchOperations {
    var operations = BatchOperations()
    guard hasIndexes else {
      for place in expired { operations.delete(place) }
      return operations
    }
    var batch = WriteBatch(store: self, hasIndexes: true)
    var (unnamed, reaped): ([BatchOperations.Place], Set<BatchOperations.Place>) = ([], [])
    for place in expired where batch.count < Self.reapedTogether {
      guard let name = engine?.keyspaces.name(of: place.keyspace) else {
        unnamed.append(place)
        continue
      }
      let keyspace = Keyspace(store: self, name: name)
      try batch.reap(place.key, in: keyspace, through: limit, &reaped)
    }
    operations = batch.take().numbered(in: engine!.keyspaces)
    for place in unnamed { operations.delete(place) }
    return operations
  }

  /// Begins to wait for the next expiry, if any entry expires.
  func scheduleReaping() {
    guard engine != nil, engine!.log.table.hasExpiries else { return }
    scheduleReaping(for: engine!.log.table.earliestKnownExpiry)
  }

  /// Lets the background delete an entry when the grace after its expiry has passed.
  func scheduleReaping(for expiry: UInt64) {
    guard expiry < compaction.reaping.awaited, engine?.refusesWrites == false, !isClosed,
      !isSuspended, !pipeline.hasPoison
    else { return }
    let clock = observers.clock.base
    let interval = reapMilliseconds
    if compaction.reaping.nextLook == 0 {
      _ = compaction.reaping.jump(of: clock, beyond: 0)
      compaction.reaping.setFirstLook(
        clock.milliseconds.addingReportingOverflow(interval).partialValue)
    }
    let grace = opener.configuration.expiryGrace.wholeMilliseconds
    let (due, isNever) = expiry.addingReportingOverflow(grace)
    if isNever { return }
    // The clock may have been set back since the last look.
    let latest = clock.milliseconds.addingReportingOverflow(interval).partialValue
    let wake = max(due, min(compaction.reaping.nextLook, latest))
    compaction.reaping.wait(
      for: expiry,
      Task.detached(priority: .utility) { [weak self, phase = observers.phase] in
        do { try await clock.sleep(until: wake) } catch { return }
        await phase.runTask { await self?.reapInBackground() }
      })
  }

  private var reapMilliseconds: UInt64 {
    max(Self.leastInterval, opener.configuration.reapInterval.wholeMilliseconds)
  }

  private func reapInBackground() async {
    guard !Task.isCancelled, !isClosed, !isSuspended else { return }
    let interval = reapMilliseconds
    let now = observers.clock.base.milliseconds
    compaction.reaping.beginLook(next: now.addingReportingOverflow(interval).partialValue)
    do throws(StoreError) { try await removeExpired() } catch {
      // Closing interrupts the deletion, and poison has its own event.
      if !isClosed, !isSuspended, !pipeline.hasPoison { send(.reapingFailed(error)) }
    }
    scheduleReaping()
  }
}

extension EngineState {
  /// Returns the time at which an entry ends; nil when the key does not exist.
  ///
  /// - Parameter time: the time at which the key must exist, in milliseconds since 1970; nil for
  ///   now.
  mutating func expiry(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16, at time: UInt64? = nil
  ) throws(StoreError) -> Expiry? {
    guard let found = try found(key, keyspace),
      try !log.table.isHidden(found.record, at: found.address, time ?? now)
    else { return nil }
    try log.table.verify(found.record, at: found.address)
    return found.record.expiryMilliseconds.map { .at(milliseconds: $0) } ?? .never
  }

  /// Returns whether a key exists at a time, in milliseconds since 1970.
  mutating func contains(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16, at time: UInt64
  ) throws(StoreError) -> Bool {
    guard let found = try found(key, keyspace) else { return false }
    return try !log.table.isHidden(found.record, at: found.address, time)
  }

  /// Returns the operation that has set a key, also when the entry has expired.
  mutating func recordedPut(
    of key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> RecordedPut? {
    guard let found = try found(key, keyspace) else { return nil }
    try log.table.verify(found.record, at: found.address)
    return RecordedPut(
      sequence: SequenceNumber(rawValue: found.record.header.sequence),
      expiry: found.record.expiryMilliseconds ?? 0)
  }

  /// Returns the number of live entries that have expired.
  ///
  /// - Parameters:
  ///   - keyspace: nil for all keyspaces.
  ///   - time: milliseconds since 1970; nil for now.
  /// - Complexity: O(expired entries that were not deleted yet).
  mutating func expiredCount(
    in keyspace: UInt16?, at time: UInt64? = nil
  ) throws(StoreError) -> Int {
    guard log.table.hasExpiries else { return 0 }
    let now = time ?? now
    let slots = log.table.slotsWithExpired(through: now)
    if slots.isEmpty { return 0 }
    try validateAllPages()
    var count = 0
    for slot in slots {
      try log.table.readExpiries(of: slot)
      for offset in log.table.expired(through: now, in: slot) {
        let address = Address(slot: slot, offset: offset)
        guard let record = try expiring(at: address, through: now),
          keyspace ?? record.header.keyspace == record.header.keyspace
        else { continue }
        if isLive(record, at: address) { count += 1 }
      }
    }
    return count
  }

  /// Returns a record that expires; nil when the record is damaged, which verification and
  /// compaction report, or expires later.
  ///
  /// - Throws: the errors of reading, except `.corrupted`.
  private mutating func expiring(
    at address: Address, through time: UInt64
  ) throws(StoreError) -> RecordReference? {
    let record: RecordReference
    do throws(StoreError) { record = try log.table.entryRecord(at: address) } catch {
      guard error.code == .corrupted else { throw error }
      log.table.noteDamage(error, among: [address.slot])
      return nil
    }
    return record.hasExpired(at: time) ? record : nil
  }

  /// Reads the expiries of the next segment that has expired entries and was not read since
  /// opening.
  ///
  /// - Returns: false when there is no such segment.
  mutating func readNextExpiries(through time: UInt64) throws(StoreError) -> Bool {
    let unread = log.table.slotsWithExpired(through: time).first {
      log.table.hasUnreadExpiries(of: $0)
    }
    guard let unread else { return false }
    try log.table.readExpiries(of: unread)
    return true
  }

  private func isLive(_ record: RecordReference, at address: Address) -> Bool {
    live.holds(address, hash(record.key, record.header.keyspace), record)
  }

  /// Returns the places of expired entries that are live. They stay in the runs of the segments
  /// until they are deleted, so that counts and snapshots know them; the call removes the others.
  ///
  /// - Parameter count: the largest number of entries.
  /// - Returns: also whether the call ended early, because it has looked at many entries.
  mutating func nextExpired(
    through time: UInt64, count: Int
  ) throws(StoreError) -> (places: [BatchOperations.Place], isMore: Bool) {
    precondition(!log.table.isRetiring, "expired entries are looked up while records move")
    var found: [(address: Address, time: UInt64)] = []
    var result: [BatchOperations.Place] = []
    var places: Set<BatchOperations.Place> = []
    var left = 16 * count
    for slot in log.table.slotsWithExpired(through: time)
    where !log.table.hasUnreadExpiries(of: slot) {
      while result.count < count, left > 0,
        let next = log.table.popExpired(through: time, in: slot)
      {
        left -= 1
        let address = Address(slot: slot, offset: next.offset)
        let expired: RecordReference?
        do throws(StoreError) { expired = try expiring(at: address, through: time) } catch {
          // The next call looks at this entry and at the earlier ones again.
          log.table.addExpiry(next.time, at: address)
          giveBack(found)
          throw error
        }
        guard let record = expired, isLive(record, at: address) else { continue }
        let place = BatchOperations.Place(
          keyspace: record.header.keyspace, key: Key([UInt8](record.key)))
        guard places.insert(place).inserted else { continue }
        result.append(place)
        found.append((address, next.time))
      }
    }
    giveBack(found)
    return (result, left == 0 || result.count == count)
  }

  /// Puts entries back into the runs of their segments.
  private mutating func giveBack(_ entries: [(address: Address, time: UInt64)]) {
    for entry in entries { log.table.addExpiry(entry.time, at: entry.address) }
  }
}
