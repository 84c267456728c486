import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Takes writes on any thread without a call of the actor, and lets the store apply them in their
  /// order: for the main actor, where each call of the store is a change of threads.
  ///
  /// ```swift
  /// let queue = try await store.writeQueue()  // once
  /// try await queue.set(bytes, forKey: "draft")  // suspends only while the queue is full
  /// let draft = try queue.value(forKey: "draft")  // sees the write that waits
  /// try await queue.flush()  // the writes are in the store
  /// ```
  ///
  /// **Order.** The store applies the writes of a queue one after the other, those that wait
  /// together as one batch. Reads of the queue see each of its earlier writes. Calls of the store
  /// itself, and its other readers, see a write when the store has applied it, soon after; a call
  /// that must see it comes after ``flush(durability:)``.
  ///
  /// **Durability.** A write in the queue is in the memory of the process only: it is acknowledged
  /// by ``flush(durability:)``. ``Store/close()`` and ``Store/suspend()`` first apply what waits.
  ///
  /// **Errors.** When the store cannot apply a write, it has applied all earlier ones, and the
  /// queue drops that write and all later ones. From then on each write and each
  /// ``flush(durability:)`` throws that error, in all tasks that use the queue, until ``reset()``.
  /// So a flush that succeeds says that no earlier write was dropped, whichever task queued it. If
  /// no call has thrown the error, ``Store/close()`` and ``Store/suspend()`` throw it.
  public struct WriteQueue: Sendable {
    private let writes: QueuedWrites
    private let keyspace: Keyspace
    private let reader: Store.Reader

    init(_ writes: QueuedWrites, _ keyspace: Keyspace, _ reader: Store.Reader) {
      (self.writes, self.keyspace) = (writes, keyspace)
      self.reader = reader.keyspace(named: keyspace.name)
    }

    /// Returns the same queue for a keyspace of the same store: the order spans the keyspaces.
    public func keyspace(_ keyspace: Keyspace) -> WriteQueue {
      precondition(keyspace.store === self.keyspace.store, "a queue writes to its own store only")
      return WriteQueue(writes, keyspace, reader)
    }

    /// Queues a put. Suspends only while the queue is full.
    ///
    /// An ``Expiry`` of nil stands for the default of the keyspace. Until the store has applied the
    /// put, reads of the queue return also an entry that has ended.
    ///
    /// - Throws: `.keyTooLarge`, `.valueTooLarge`, `.readOnly`, `.closed`, `.suspended`,
    ///   `.usedAfterFork`; the error of an earlier write that was dropped; `.cancelled` when the
    ///   task is cancelled before the queue has room.
    /// - Complexity: O(key); the value is not copied.
    public nonisolated(nonsending) func set(
      _ value: [UInt8], forKey key: Key, expiring expiry: Expiry? = nil
    ) async throws(StoreError) {
      try await addWaiting(KeyspaceOperation(key: key, value: value), expiring: expiry)
    }

    /// Queues a removal. See ``set(_:forKey:expiring:)``.
    public nonisolated(nonsending) func removeValue(forKey key: Key) async throws(StoreError) {
      try await addWaiting(KeyspaceOperation(key: key, value: nil))
    }

    /// Queues a put, for code that cannot wait. See ``set(_:forKey:expiring:)``.
    ///
    /// - Returns: false when the queue is full; nothing was queued then.
    public func trySet(
      _ value: [UInt8], forKey key: Key, expiring expiry: Expiry? = nil
    ) throws(StoreError) -> Bool {
      try add(KeyspaceOperation(key: key, value: value), expiring: expiry)
    }

    /// Queues a removal, for code that cannot wait. See ``trySet(_:forKey:expiring:)``.
    public func tryRemoveValue(forKey key: Key) throws(StoreError) -> Bool {
      try add(KeyspaceOperation(key: key, value: nil))
    }

    /// Queues an operation, with its values for indexes.
    ///
    /// - Parameter expiry: the time at which the entry ends; nil for the default of the keyspace.
    package func add(
      _ operation: KeyspaceOperation, expiring expiry: Expiry? = nil
    ) throws(StoreError) -> Bool {
      try keyspace.store.checkQueueing()
      try operation.checkLimits()
      // Counted from this moment, whenever the store applies the write.
      let expiry = (expiry ?? keyspace.defaultExpiry)
        .counted(from: keyspace.store.clock.milliseconds)
      return try writes.add(operation, in: keyspace, expiry)
    }

    /// Queues an operation when the queue has room for it. See ``add(_:expiring:)``.
    package nonisolated(nonsending) func addWaiting(
      _ operation: KeyspaceOperation, expiring expiry: Expiry? = nil
    ) async throws(StoreError) {
      while try !add(operation, expiring: expiry) {
        await writes.waitForRoom(for: operation)
        if Task.isCancelled {
          throw StoreError(.cancelled, "the task was cancelled while the queue was full")
        }
      }
    }

    /// Returns the value that the last queued write of a key has left, or else the value in the
    /// store; nil when the key does not exist.
    ///
    /// - Throws: the errors of ``Store/Reader/value(forKey:)``.
    public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
      if let pending = try pending(key) { return pending.value }
      return try reader.value(forKey: key)
    }

    /// Returns whether a key exists after the queued writes. Throws the errors of
    /// ``value(forKey:)``.
    public func contains(_ key: Key) throws(StoreError) -> Bool {
      if let pending = try pending(key) { return pending.value != nil }
      return try reader.contains(key)
    }

    /// Returns the last queued write of a key; nil when the store has applied it.
    package func pending(_ key: Key) throws(StoreError) -> KeyspaceOperation? {
      try keyspace.store.checkProcess()
      return writes.pending(key, in: keyspace.name)
    }

    /// Waits until the store has applied all writes that were queued before the call, in all
    /// keyspaces of the queue.
    ///
    /// - Parameter durability: what to wait for; nil for the configuration's durability.
    ///   With ``Durability/sync``, also the absence of keys that were removed is durable then.
    /// - Returns: the sequence number of the last operation that the store has applied; nil when
    ///   there was none.
    /// - Throws: the error of the first write that could not be applied, until ``reset()``; it and
    ///   all later writes were dropped. Errors as in ``Store/set(_:forKey:durability:)``.
    @discardableResult
    public func flush(durability: Durability? = nil) async throws(StoreError) -> SequenceNumber? {
      try keyspace.store.checkProcess()
      let sequence = try await writes.waitUntilApplied()
      if let durability {
        // Not only up to that operation: a removal of an absent key has no number.
        try await keyspace.store.waitForDurability(of: nil, durability)
      }
      return sequence
    }

    /// Makes a queue that has dropped writes take writes again. Call it when all tasks that use the
    /// queue know of the error: a later flush does not report it.
    ///
    /// - Returns: the error that each write and flush has thrown until now; nil when there is none.
    /// - Throws: `.usedAfterFork`.
    @discardableResult
    public func reset() throws(StoreError) -> StoreError? {
      try keyspace.store.checkProcess()
      return writes.reset()
    }

    /// The number of flushes that wait; for tests.
    package var flushCount: Int { writes.flushCount }

    /// The number of tasks that wait for room; for tests.
    package var writerCount: Int { writes.writerCount }

    /// About the memory of the waiting writes: their keys, values and values in indexes, and 256
    /// bytes for each. 0 in a forked child.
    public var pendingBytes: Int {
      keyspace.store.pipeline.isInItsProcess ? writes.pendingBytes : 0
    }
  }

  /// Returns a queue of writes, which other threads and the main actor can use. One queue serves a
  /// whole program; see ``Store/Reader`` for the cost of its reads.
  ///
  /// - Parameter capacityBytes: ``WriteQueue/pendingBytes`` from which on the queue is full. A
  ///   half-empty queue takes any write.
  /// - Throws: the errors of ``reader()``.
  public func writeQueue(
    capacityBytes: Int = 1 << 20
  ) async throws(StoreError) -> Store.WriteQueue {
    precondition(capacityBytes > 0, "a queue has room for a write")
    let reader = try await reader()
    let writes = QueuedWrites(capacityBytes: capacityBytes)
    writing.add(writes)
    return WriteQueue(writes, Keyspace(store: self, name: ""), reader)
  }
}

extension KeyspaceOperation {
  fileprivate func checkLimits() throws(StoreError) {
    try key.bytes.withBytes { (key) throws(StoreError) in
      try (value ?? []).withBytes { (value) throws(StoreError) in
        try EngineState.checkLimits(key, value)
      }
    }
  }
}

extension Store {
  /// In a forked child, a thread of the parent may hold the lock of the queue for ever.
  fileprivate nonisolated func checkProcess() throws(StoreError) {
    if !pipeline.isInItsProcess { throw .usedAfterFork }
  }

  fileprivate nonisolated func checkQueueing() throws(StoreError) {
    try checkProcess()
    if opener.configuration.isReadOnly || pipeline.isFollowing.load(ordering: .relaxed) {
      throw EngineState.refusal(opener.configuration)
    }
  }

  /// Applies the writes of a queue until none is left.
  fileprivate func drain(_ queue: QueuedWrites) async {
    while let writes = queue.take() {
      do throws(StoreError) {
        let sequence = try await apply(writes[...], of: queue)
        try await waitForDurability(of: sequence, nil)
        queue.finished(writes[...], sequence)
      } catch {
        await applyEach(writes, of: queue, error)
      }
    }
  }

  /// - Returns: the number of the last operation; nil when all were removals of absent keys.
  private func apply(
    _ writes: ArraySlice<QueuedWrites.Write>, of queue: QueuedWrites
  ) async throws(StoreError) -> SequenceNumber? {
    let sequence = try await writeUnit(Durability.none) { (batch) throws(StoreError) in
      for write in writes {
        try batch.add([write.operation], in: write.keyspace, expiring: write.expiry)
      }
    }
    // No other call runs between the commit and this one. So a read of the queue cannot show one of
    // these writes after another task has replaced it.
    queue.becameVisible(writes)
    return sequence
  }

  /// Applies writes one by one, because their batch has failed, up to the first one that fails.
  private func applyEach(
    _ writes: [QueuedWrites.Write], of queue: QueuedWrites, _ cause: StoreError
  ) async {
    guard writes.count > 1, cause.isOfOneWrite, !pipeline.hasPoison else {
      return recordFailure(of: queue, cause)
    }
    var (count, last): (Int, SequenceNumber?) = (0, nil)
    do throws(StoreError) {
      var failure: StoreError?
      do throws(StoreError) {
        for place in writes.indices {
          last = try await apply(writes[place...place], of: queue) ?? last
          count += 1
        }
      } catch { failure = error }
      // One sync for all of them.
      if count > 0 {
        try await waitForDurability(of: nil, nil)
        queue.finished(writes[..<count], last)
      }
      if let failure { throw failure }
    } catch { recordFailure(of: queue, error) }
  }

  private func recordFailure(of queue: QueuedWrites, _ error: StoreError) {
    queue.failed(error)
    writing.keepUntilReported(queue)
  }
}

extension StoreError {
  /// Whether one write of a batch may have caused the error, so that those before it can be
  /// applied.
  fileprivate var isOfOneWrite: Bool {
    switch code {
    case .closed, .suspended, .locked, .poisoned, .usedAfterFork, .readOnly, .cancelled: false
    default: true
    }
  }
}

/// Writes that a store has not applied yet.
///
/// Thread safety: the state is in a mutex, which no code holds while it waits.
final class QueuedWrites: Sendable {
  struct Write {
    let operation: KeyspaceOperation
    let keyspace: Keyspace
    let expiry: Expiry
    let place: Place
    let number: UInt64

    /// The memory that a write takes besides its key and value, about.
    static let overheadBytes = 256

    var costBytes: Int { Self.costBytes(operation) }

    static func costBytes(_ operation: KeyspaceOperation) -> Int {
      operation.key.bytes.count + (operation.value?.count ?? 0)
        + (operation.row?.memoryBytes ?? 0) + overheadBytes
    }
  }

  struct Place: Hashable {
    let keyspace: Int
    let key: Key
  }

  fileprivate struct Waiter {
    let number: UInt64
    /// Whether the program learns of an error by this waiter.
    let reportsErrors: Bool
    let continuation: UnsafeContinuation<Result<SequenceNumber?, StoreError>, Never>
  }

  fileprivate struct State {
    /// The writes that the store has not taken yet.
    var waiting: [Write] = []
    /// The writes that the store is applying.
    var taken: [Write] = []
    /// The bytes of both.
    var bytes = 0
    /// The number of the last write of each key, among those that wait.
    var latest: [Place: UInt64] = [:]
    /// The same among those that the store is applying, without those that it shows already.
    var latestTaken: [Place: UInt64] = [:]
    /// The names of the keyspaces; a place refers to a name by its index.
    var names: [String] = []
    /// The number of the last write.
    var last: UInt64 = 0
    /// All writes up to this number are applied or dropped.
    var done: UInt64 = 0
    var sequence: SequenceNumber?
    /// Whether a task applies the writes, or is about to.
    var isDraining = false
    /// Why the queue takes no writes now: the store is closed or suspended.
    var refusal: StoreError?
    /// The error of the first write that was dropped since the last ``WriteQueue/reset()``.
    var failure: StoreError?
    /// Whether a call has thrown the failure.
    var isReported = false
    var flushes: [Waiter] = []
    var writers: [WaitingWriter] = []
    var writerCount: UInt64 = 0
  }

  fileprivate struct WaitingWriter {
    let number: UInt64
    let continuation: UnsafeContinuation<Void, Never>
  }

  private let state = Mutex(State())
  private let capacityBytes: Int

  init(capacityBytes: Int) { self.capacityBytes = capacityBytes }

  /// - Returns: false when the queue is full.
  func add(
    _ operation: KeyspaceOperation, in keyspace: Keyspace, _ expiry: Expiry
  ) throws(StoreError) -> Bool {
    let cost = Write.costBytes(operation)
    let isFirst = try state.withLock { (state) throws(StoreError) -> Bool? in
      if let refusal = state.refusal { throw refusal }
      if let failure = state.failure {
        state.isReported = true
        throw failure
      }
      guard state.hasRoom(for: cost, capacityBytes) else { return nil }
      let place = Place(keyspace: state.number(of: keyspace.name), key: operation.key)
      state.last += 1
      let write = Write(
        operation: operation, keyspace: keyspace, expiry: expiry, place: place,
        number: state.last)
      state.waiting.append(write)
      state.latest[place] = write.number
      state.bytes += cost
      defer { state.isDraining = true }
      return !state.isDraining
    }
    if isFirst == true { keyspace.store.startTask { [self] in await $0.drain(self) } }
    return isFirst != nil
  }

  func pending(_ key: Key, in name: String) -> KeyspaceOperation? {
    state.withLock { state in
      if state.latest.isEmpty, state.latestTaken.isEmpty { return nil }
      guard let keyspace = state.names.firstIndex(of: name) else { return nil }
      let place = Place(keyspace: keyspace, key: key)
      if let number = state.latest[place] { return state.waiting.operation(number) }
      return state.latestTaken[place].map { state.taken.operation($0) }
    }
  }

  var pendingBytes: Int { state.withLock { $0.bytes } }

  var flushCount: Int { state.withLock { $0.flushes.count } }

  var writerCount: Int { state.withLock { $0.writers.count } }

  /// Waits until half of the queue is free, and there is room for an operation; or until the task
  /// is cancelled, or the queue takes no writes.
  nonisolated(nonsending) func waitForRoom(for operation: KeyspaceOperation) async {
    let cost = Write.costBytes(operation)
    let number = state.withLock { state in
      state.writerCount += 1
      return state.writerCount
    }
    await withTaskCancellationHandler {
      await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
        let mayGoOn = state.withLock { state in
          let isHalfFree = state.bytes * 2 <= capacityBytes
          if isHalfFree, state.hasRoom(for: cost, capacityBytes) { return true }
          // A cancellation after this finds the continuation in the list.
          if Task.isCancelled || state.refusal != nil || state.failure != nil { return true }
          state.writers.append(WaitingWriter(number: number, continuation: continuation))
          return false
        }
        if mayGoOn { continuation.resume() }
      }
    } onCancel: {
      let writer = state.withLock { state in
        state.writers.firstIndex { $0.number == number }.map { state.writers.remove(at: $0) }
      }
      writer?.continuation.resume()
    }
  }

  /// Refuses all further writes.
  func stop(_ refusal: StoreError) {
    let writers = state.withLock { state in
      state.refusal = refusal
      defer { state.writers = [] }
      return state.writers
    }
    for writer in writers { writer.continuation.resume() }
  }

  /// Takes writes again after ``stop(_:)``.
  func start() { state.withLock { $0.refusal = nil } }

  /// Whether all writes are applied or dropped.
  var isIdle: Bool { state.withLock { $0.done == $0.last } }

  func reset() -> StoreError? {
    state.withLock { state in
      defer { state.failure = nil }
      return state.failure
    }
  }

  /// Whether writes were dropped and no call has thrown the error.
  var hasUnreportedFailure: Bool { state.withLock { $0.failure != nil && !$0.isReported } }

  /// Returns the error that no call has thrown; nil when there is none.
  func takeUnreportedFailure() -> StoreError? {
    state.withLock { state in
      guard let failure = state.failure, !state.isReported else { return nil }
      state.isReported = true
      return failure
    }
  }

  /// Waits until all writes of this moment are applied or dropped. Leaves the error for the caller
  /// of ``Store/WriteQueue/flush(durability:)``.
  nonisolated(nonsending) func waitUntilIdle() async {
    _ = await withUnsafeContinuation {
      (continuation: UnsafeContinuation<Result<SequenceNumber?, StoreError>, Never>) in
      let isIdle = state.withLock { state in
        if state.done == state.last { return true }
        state.flushes.append(
          Waiter(number: state.last, reportsErrors: false, continuation: continuation))
        return false
      }
      if isIdle { continuation.resume(returning: .success(nil)) }
    }
  }

  /// Waits until all writes of this moment are applied.
  ///
  /// - Returns: the number of the last operation that was applied.
  func waitUntilApplied() async throws(StoreError) -> SequenceNumber? {
    let answer = await withUnsafeContinuation {
      (continuation: UnsafeContinuation<Result<SequenceNumber?, StoreError>, Never>) in
      let answer = state.withLock { state -> Result<SequenceNumber?, StoreError>? in
        if let failure = state.failure {
          state.isReported = true
          return .failure(failure)
        }
        if state.done == state.last { return .success(state.sequence) }
        state.flushes.append(
          Waiter(number: state.last, reportsErrors: true, continuation: continuation))
        return nil
      }
      if let answer { continuation.resume(returning: answer) }
    }
    return try answer.get()
  }
}

extension [QueuedWrites.Write] {
  /// Returns the operation with a number: the numbers are consecutive.
  fileprivate func operation(_ number: UInt64) -> KeyspaceOperation {
    let write = self[Int(number - self[0].number)]
    precondition(write.number == number, "a write is not at its place")
    return write.operation
  }
}

extension QueuedWrites.State {
  /// A half-empty queue takes any write. So a write longer than the capacity does not wait for ever
  /// while others write.
  fileprivate func hasRoom(for cost: Int, _ capacityBytes: Int) -> Bool {
    bytes + cost <= capacityBytes || bytes * 2 <= capacityBytes && cost * 2 > capacityBytes
  }

  /// Returns the index of a name. The search is linear: a queue has few keyspaces.
  fileprivate mutating func number(of name: String) -> Int {
    if let known = names.firstIndex(of: name) { return known }
    names.append(name)
    return names.count - 1
  }
}

/// The side of the store.
extension QueuedWrites {
  /// Takes all writes that wait; nil when there are none. Then the task ends.
  fileprivate func take() -> [Write]? {
    state.withLock { state in
      precondition(state.isDraining, "two tasks apply the writes of a queue")
      state.taken = state.waiting
      state.latestTaken = state.latest
      state.waiting = []
      state.latest = [:]
      if state.taken.isEmpty {
        state.isDraining = false
        return nil
      }
      return state.taken
    }
  }

  /// Records that the store shows writes: the queue hides them from now on.
  fileprivate func becameVisible(_ writes: ArraySlice<Write>) {
    // Released when no thread has the lock.
    var released: [Place: UInt64] = [:]
    state.withLock { state in
      if writes.count == state.taken.count {
        swap(&released, &state.latestTaken)
      } else {
        for write in writes where state.latestTaken[write.place] == write.number {
          state.latestTaken[write.place] = nil
        }
      }
    }
  }

  /// Records that writes are applied, and as durable as the configuration says.
  fileprivate func finished(_ writes: ArraySlice<Write>, _ sequence: SequenceNumber?) {
    guard let last = writes.last else { return }
    let bytes = writes.reduce(0) { $0 + $1.costBytes }
    let (flushes, writers) = state.withLock { state in
      precondition(last.number > state.done, "a write is applied twice")
      state.bytes -= bytes
      assert(state.bytes >= 0, "more bytes were applied than queued")
      state.done = last.number
      state.sequence = sequence ?? state.sequence
      let done = state.flushes.filter { $0.number <= last.number }
      state.flushes.removeAll { $0.number <= last.number }
      return (done.map { ($0, state.sequence) }, state.takeWriters(capacityBytes))
    }
    for (flush, sequence) in flushes { flush.continuation.resume(returning: .success(sequence)) }
    for writer in writers { writer.continuation.resume() }
  }

  /// Drops all writes that are not applied.
  fileprivate func failed(_ error: StoreError) {
    let (flushes, writers) = state.withLock { state in
      (state.waiting, state.taken) = ([], [])
      (state.latest, state.latestTaken) = ([:], [:])
      state.bytes = 0
      state.done = state.last
      let flushes = state.flushes
      state.flushes = []
      state.failure = error
      state.isReported = flushes.contains(where: \.reportsErrors)
      return (flushes, state.takeWriters(capacityBytes))
    }
    for flush in flushes { flush.continuation.resume(returning: .failure(error)) }
    for writer in writers { writer.continuation.resume() }
  }
}

extension QueuedWrites.State {
  /// Returns the tasks that wait for room, if half of the queue is free.
  fileprivate mutating func takeWriters(_ capacityBytes: Int) -> [QueuedWrites.WaitingWriter] {
    guard bytes * 2 <= capacityBytes else { return [] }
    defer { writers = [] }
    return writers
  }
}
