/// Record of whether a store is open, suspended or closed.
struct StoreLifecycle {
  /// The reason why a store could not be opened; nil for a store that was open.
  let refusal: StoreError?
  /// Whether `close()` was called, or the store was never open.
  private(set) var isClosed: Bool
  /// Whether the store is between `suspend()` and `resume()`.
  private(set) var isSuspended = false
  /// Whether a store existed in the directory at the time of the suspension.
  private(set) var existed = false
  /// Held by the call that suspends or resumes the store. Such calls come one after the other, in
  /// their order: an app may go into the background while it still opens its stores.
  let turnGate = AsyncGate()
  private let ending: StoreEnding

  init(_ refusal: StoreError?, _ ending: StoreEnding) {
    self.refusal = refusal
    self.ending = ending
    isClosed = refusal != nil
  }

  /// Closes the store.
  ///
  /// - Returns: whether this is the first call.
  mutating func close() -> Bool {
    defer { isClosed = true }
    return !isClosed
  }

  mutating func suspend() {
    assert(!isSuspended && !isClosed, "only an open store can be suspended")
    isSuspended = true
  }

  /// Records that a suspended store leaves its directory.
  mutating func leave(exists: Bool) {
    assert(isSuspended, "only a suspended store leaves its directory")
    existed = exists
  }

  mutating func resume() {
    assert(isSuspended, "only a suspended store can be resumed")
    isSuspended = false
  }
}
