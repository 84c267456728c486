/// Whether a store can be used.
struct StoreLifecycle {
  /// Why a store that never was open cannot be used.
  let refusal: StoreError?
  /// Whether `close()` was called, or the store never was open.
  private(set) var isClosed: Bool
  /// Between `suspend()` and `resume()`.
  private(set) var isSuspended = false
  private let ending: StoreEnding

  init(_ refusal: StoreError?, _ ending: StoreEnding) {
    self.refusal = refusal
    self.ending = ending
    isClosed = refusal != nil
  }

  /// - Returns: whether this call is the first that closes the store.
  mutating func close() -> Bool {
    defer { isClosed = true }
    return !isClosed
  }

  mutating func suspend() {
    assert(!isSuspended && !isClosed, "a store that is not in use is suspended")
    isSuspended = true
  }

  mutating func resume() {
    assert(isSuspended, "a store that was not suspended is resumed")
    isSuspended = false
  }
}
