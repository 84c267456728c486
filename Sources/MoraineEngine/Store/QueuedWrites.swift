import Synchronization

/// Writes that a store has not applied yet.
///
/// Thread safety: the state is in a mutex, which no code holds while it waits.
final class QueuedWrites: Sendable {
  struct Write {
    let operation: KeyspaceOperation
    let keyspace: Keyspace
    let expiry: Expiry
    /// The time at which an entry must exist whose expiry the write keeps, in milliseconds since
    /// 1970; nil for a write that keeps no expiry.
    let beginning: UInt64?
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
    _ operation: KeyspaceOperation, in keyspace: Keyspace, _ expiry: Expiry,
    reading beginning: UInt64?
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
        operation: operation, keyspace: keyspace, expiry: expiry, beginning: beginning,
        place: place, number: state.last)
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
  func take() -> [Write]? {
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
  func becameVisible(_ writes: ArraySlice<Write>) {
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
  ///
  /// - Parameter failure: why they did not become as durable as that; nil when they did.
  func finished(
    _ writes: ArraySlice<Write>, _ sequence: SequenceNumber?, _ failure: StoreError? = nil
  ) {
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
      if let failure { state.record(failure, to: done) }
      let answer = failure.map { Result.failure($0) } ?? .success(state.sequence)
      return (done.map { ($0, answer) }, state.takeWriters(capacityBytes))
    }
    for (flush, answer) in flushes { flush.continuation.resume(returning: answer) }
    for writer in writers { writer.continuation.resume() }
  }

  /// Drops all writes that are not applied.
  func failed(_ error: StoreError) {
    let (flushes, writers) = state.withLock { state in
      (state.waiting, state.taken) = ([], [])
      (state.latest, state.latestTaken) = ([:], [:])
      state.bytes = 0
      state.done = state.last
      let flushes = state.flushes
      state.flushes = []
      state.record(error, to: flushes)
      return (flushes, state.takeWriters(capacityBytes))
    }
    for flush in flushes { flush.continuation.resume(returning: .failure(error)) }
    for writer in writers { writer.continuation.resume() }
  }
}

extension QueuedWrites.State {
  /// Keeps the first error until the program resets the queue.
  fileprivate mutating func record(_ error: StoreError, to flushes: [QueuedWrites.Waiter]) {
    if failure == nil { (failure, isReported) = (error, false) }
    if flushes.contains(where: \.reportsErrors) { isReported = true }
  }

  /// Returns the tasks that wait for room, if half of the queue is free, or if there is an error,
  /// which they throw.
  fileprivate mutating func takeWriters(_ capacityBytes: Int) -> [QueuedWrites.WaitingWriter] {
    guard bytes * 2 <= capacityBytes || failure != nil else { return [] }
    defer { writers = [] }
    return writers
  }
}
