import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// A kernel file descriptor that can be parked, that is, closed while no call uses it.
///
/// Thread safety: one word contains the descriptor and the number of calls that use it. A call adds
/// itself before it looks at the descriptor. The descriptor is parked by an exchange that succeeds
/// only where that number is 0, so no call has a descriptor that was closed. A call that finds no
/// descriptor waits for `change` and opens the file again. That call is counted, so the new
/// descriptor is not parked before the call ends. Acquiring where a call adds itself: the call
/// comes after the opening that stored the descriptor. Releasing where a call leaves, acquiring in
/// the exchange: the close comes after the calls.
final class Descriptor: Sendable {
  #if os(Linux) || os(Android)
    static let canPark = true
  #else
    static let canPark = false
  #endif

  private static let none: UInt64 = 0xFFFF_FFFF << 32
  /// The number of attempts, and the pause between them, of a call that lacks a descriptor.
  private static let attemptLimit = 20
  private static let retryNanoseconds: UInt64 = 10_000_000

  /// The descriptor in the upper half, the number of calls that use it in the lower half.
  private let word: Atomic<UInt64>
  /// Relaxed: the pool only estimates which descriptors are used less than others.
  private let isReferenced = Atomic<Bool>(true)
  /// Whether a thread is parking the descriptor or opening the file again.
  private let change = Monitor(false)
  private let pool: DescriptorPool

  /// Takes ownership of the descriptor.
  init(_ number: CInt) {
    word = Atomic(Self.encoded(number))
    pool = .current
    pool.opened()
  }

  deinit {
    guard let number = Self.number(in: word.load(ordering: .acquiring)) else { return }
    close(number)
    pool.closed()
  }

  private static func encoded(_ number: CInt) -> UInt64 {
    precondition(number >= 0, "a descriptor is negative")
    return UInt64(UInt32(bitPattern: number)) << 32
  }

  private static func number(in word: UInt64) -> CInt? {
    word & none == none ? nil : CInt(truncatingIfNeeded: word >> 32)
  }

  var isParked: Bool { Self.number(in: word.load(ordering: .relaxed)) == nil }

  func takeReference() -> Bool { isReferenced.exchange(false, ordering: .relaxed) }

  /// Runs the body with the descriptor. Where the descriptor is parked, calls `open` first.
  func use<Result>(
    reopening open: () throws(StorageError) -> CInt,
    _ body: (CInt) throws(StorageError) -> Result
  ) throws(StorageError) -> Result {
    let pinned = word.wrappingAdd(1, ordering: .acquiring).newValue
    defer { word.wrappingSubtract(1, ordering: .releasing) }
    if !isReferenced.load(ordering: .relaxed) { isReferenced.store(true, ordering: .relaxed) }
    guard let number = Self.number(in: pinned) else { return try body(reopened(open)) }
    return try body(number)
  }

  /// Runs the body like ``use(reopening:_:)``, but waits where no descriptor is left, for a fifth
  /// of a second at most. It is for calls whose failure would end a store's writing.
  func useWithPatience<Result>(
    reopening open: () throws(StorageError) -> CInt,
    _ body: (CInt) throws(StorageError) -> Result
  ) throws(StorageError) -> Result {
    var attempts = 0
    while true {
      do throws(StorageError) { return try use(reopening: open, body) } catch {
        attempts += 1
        // Only opening fails with this error: the body has not run.
        guard error.lacksDescriptor, attempts < Self.attemptLimit else { throw error }
        SystemClock.sleep(nanoseconds: Self.retryNanoseconds)
      }
    }
  }

  private func reopened(_ open: () throws(StorageError) -> CInt) throws(StorageError) -> CInt {
    beginChange()
    defer { endChange() }
    if let number = Self.number(in: word.load(ordering: .acquiring)) { return number }
    let number = try open()
    put(number)
    pool.opened()
    return number
  }

  /// Stores the descriptor. Releasing: a call that finds the descriptor comes after the opening.
  private func put(_ number: CInt) {
    word.wrappingSubtract(Self.none - Self.encoded(number), ordering: .releasing)
  }

  /// Closes the descriptor, if no call uses it.
  ///
  /// - Parameter prepare: runs before the close, and returns whether the descriptor may be closed.
  ///   Calls that need the descriptor wait while it runs.
  /// - Returns: whether the descriptor was closed.
  func park(_ prepare: (CInt) -> Bool) -> Bool {
    guard Self.canPark, pool.forkGeneration == CurrentProcess.forkGeneration, tryToBeginChange()
    else {
      return false
    }
    defer { endChange() }
    let before = word.load(ordering: .relaxed)
    guard let number = Self.number(in: before), before == Self.encoded(number),
      word.compareExchange(
        expected: before, desired: Self.none, ordering: .acquiringAndReleasing
      ).exchanged
    else { return false }
    guard prepare(number) else {
      put(number)
      return false
    }
    close(number)
    pool.closed()
    return true
  }

  /// Runs the body while no thread parks the descriptor or opens it again.
  ///
  /// - Parameter body: receives nil where the descriptor is parked.
  func holding<Result>(_ body: (CInt?) -> Result) -> Result {
    beginChange()
    defer { endChange() }
    return body(Self.number(in: word.load(ordering: .acquiring)))
  }

  private func beginChange() {
    change.wait { isChanging -> Monitor<Bool>.Wait<Void> in
      if isChanging { return .forSignal }
      isChanging = true
      return .done(())
    }
  }

  private func tryToBeginChange() -> Bool {
    change.withLock { isChanging in
      defer { isChanging = true }
      return !isChanging
    }
  }

  private func endChange() {
    change.withLock { $0 = false }
    change.signal()
  }
}
