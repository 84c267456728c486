import Synchronization

/// A word of ``ReaderEpochs``.
enum EpochWord: Hashable {
  /// The object that readers read now.
  case current
  /// The parity, 0 or 1, by which readers count themselves now.
  case parity
  /// Number of the readers of one slot that read now, by the parity with which they began.
  case readers(slot: Int, parity: UInt64)
  /// 1 when a reader has asked for another look at the counts.
  case request
}

/// The protocol by which readers use an object without a lock, and one thread at a time replaces
/// the object and learns when the last reader of the old one has left. (Sleepable RCU: McKenney,
/// "Sleepable Read-Copy Update", LWN 2006.)
///
/// A reader counts itself, and then loads the object. A writer replaces the object, and then looks
/// at the counts. A sequentially consistent fence lies between the two steps of each. So a reader
/// whose count the writer does not see has loaded the new object: the fence of the writer came
/// first. The old object is released after each count, of each slot and parity, was seen to be
/// zero at some time after the replacement: a reader that had the old object was counted until it
/// left, and its leaving has the releasing order that the look acquires.
///
/// Safety needs no more than that. The parities only make it end: readers that come all the time
/// count themselves by one parity, until the writer changes it, so the counts of the other one
/// fall to zero.
extension ExchangingMemory where Place == EpochWord {
  /// Counts a reader.
  ///
  /// - Returns: the parity with which the reader leaves, and the object.
  @inline(__always)
  func enter(slot: Int) throws(Stop) -> (parity: UInt64, object: UInt64) {
    // Relaxed: an old parity is as good as the new one.
    let parity = try load(relaxed: .parity)
    try add(1, to: .readers(slot: slot, parity: parity))
    try sequentiallyConsistentFence()
    return (parity, try load(acquiring: .current))
  }

  @inline(__always)
  func leave(slot: Int, parity: UInt64) throws(Stop) {
    try add(.max, to: .readers(slot: slot, parity: parity))
  }

  /// Replaces the object.
  ///
  /// - Returns: the old one, which readers may still use.
  func replace(by object: UInt64) throws(Stop) -> UInt64 {
    let old = try exchange(object, in: .current)
    try sequentiallyConsistentFence()
    return old
  }

  /// Returns whether the counts of a parity are zero.
  func hasNoReaders(slots: Int, parity: UInt64) throws(Stop) -> Bool {
    for slot in 0..<slots where try load(acquiring: .readers(slot: slot, parity: parity)) != 0 {
      return false
    }
    return true
  }

  /// Makes new readers count themselves by the other parity.
  func changeParity() throws(Stop) {
    // Only the caller changes the word; an exchange, so that each fence follows one.
    _ = try exchange(1 - load(relaxed: .parity), in: .parity)
    try sequentiallyConsistentFence()
  }
}

/// How far the readers of a replaced object have been seen to leave.
enum EpochProgress {
  /// No count was looked at since the object was replaced.
  case begun
  /// The counts of the other parity were zero, and the parity was changed.
  case changed
  /// All readers that could have the object have left.
  case ended
}

extension ExchangingMemory where Place == EpochWord {
  /// Looks at the counts once more. One thread at a time calls this function.
  func advance(_ progress: EpochProgress, slots: Int) throws(Stop) -> EpochProgress {
    var progress = progress
    // The parity that no new reader takes.
    let idle = 1 - (try load(relaxed: .parity))
    if progress == .begun, try hasNoReaders(slots: slots, parity: idle) {
      try changeParity()
      progress = .changed
      return try hasNoReaders(slots: slots, parity: 1 - idle) ? .ended : .changed
    }
    if progress == .changed, try hasNoReaders(slots: slots, parity: idle) { return .ended }
    return progress
  }
}

/// The looks at the counts when readers leave. A reader that leaves while another thread has the
/// lock of the looks does not wait for the lock, and its leaving is not missed either.
///
/// A reader asks for a look, and then tries to take the lock. Each thread that has had the lock,
/// for any purpose, takes the request after it has unlocked. Both steps are exchanges of one word,
/// so they have one order, and each acquires what came before the earlier ones. Consider a reader
/// that finds the lock taken. The thread that has it takes the request later than the reader has
/// asked: otherwise its unlocking, which comes before it takes the request, would also come before
/// the attempt, and the attempt would not find its lock. So that thread takes the request, or
/// another one does before. The thread that takes a request has the lock and looks at the counts
/// next, or it asks again, and the same holds for its attempt. The thread that looks has acquired
/// the request, so it sees that the reader has left.
extension ExchangingMemory where Place == EpochWord {
  /// Returns whether a reader that has left may be the one for which the thread that looks at the
  /// counts waits. Called after a sequentially consistent fence that follows the leaving.
  ///
  /// A look waits for readers of the parity that no new reader takes. A fence lies between the
  /// change of the parity and the look, and another one between the leaving and this load. So if a
  /// look after the change has counted the reader, this load returns the changed parity. The
  /// readers of the present parity need not look, and so the requests end although readers come all
  /// the time.
  @inline(__always)
  func mayBeAwaited(parity: UInt64) throws(Stop) -> Bool { try load(relaxed: .parity) != parity }

  /// Asks for a look at the counts.
  func requestLook() throws(Stop) { _ = try exchange(1, in: .request) }

  /// Returns whether a reader has asked for a look since the last call.
  func takeRequest() throws(Stop) -> Bool { try exchange(0, in: .request) == 1 }
}

/// The words of a set of readers, in this process's memory.
///
/// Safety of `@unchecked Sendable`: every word is atomic.
final class ReaderEpochs: @unchecked Sendable, ExchangingMemory {
  typealias Place = EpochWord
  typealias Stop = Never

  /// Readers on this many threads do not write to each other's cache lines, mostly.
  static let slotCount = 32
  /// Two cache lines: some processors fetch two together.
  private static let wordsPerSlot = 16
  private static let wordCount = (slotCount + 3) * wordsPerSlot
  private let words: UnsafeMutablePointer<Atomic<UInt64>>

  init() {
    words = .allocate(capacity: Self.wordCount)
    for index in 0..<Self.wordCount { (words + index).initialize(to: Atomic(0)) }
  }

  deinit {
    words.deinitialize(count: Self.wordCount)
    words.deallocate()
  }

  @inline(__always)
  private func word(_ place: EpochWord) -> UnsafeMutablePointer<Atomic<UInt64>> {
    switch place {
    case .current: words
    case .parity: words + Self.wordsPerSlot
    case .request: words + 2 * Self.wordsPerSlot
    case .readers(let slot, let parity):
      words + ((slot &+ 3) &* Self.wordsPerSlot &+ Int(truncatingIfNeeded: parity))
    }
  }

  @inline(__always)
  func load(relaxed place: EpochWord) -> UInt64 { word(place).pointee.load(ordering: .relaxed) }

  @inline(__always)
  func load(acquiring place: EpochWord) -> UInt64 {
    word(place).pointee.load(ordering: .acquiring)
  }

  @inline(__always)
  func store(_ value: UInt64, relaxed place: EpochWord) {
    word(place).pointee.store(value, ordering: .relaxed)
  }

  @inline(__always)
  func store(_ value: UInt64, releasing place: EpochWord) {
    word(place).pointee.store(value, ordering: .releasing)
  }

  /// Each fence of the protocol follows an addition or an exchange. On x86-64 these are locked
  /// instructions, which order all loads and stores around them as a fence does (Intel, "Software
  /// Developer's Manual", volume 3, 9.2.3.9); and being acquiring, they are not moved after later
  /// loads by the compiler.
  @inline(__always)
  func sequentiallyConsistentFence() {
    #if arch(x86_64)
      atomicMemoryFence(ordering: .acquiringAndReleasing)
    #else
      atomicMemoryFence(ordering: .sequentiallyConsistent)
    #endif
  }

  @inline(__always)
  func exchange(_ value: UInt64, in place: EpochWord) -> UInt64 {
    word(place).pointee.exchange(value, ordering: .acquiringAndReleasing)
  }

  @inline(__always)
  func add(_ value: UInt64, to place: EpochWord) {
    word(place).pointee.wrappingAdd(value, ordering: .acquiringAndReleasing)
  }
}
