import Synchronization

/// Words that the writer and the committing thread exchange without a lock.
enum CommitWord {
  /// The last operation whose bytes are in the kernel.
  case appendedSequence
  /// The end of the log in the active segment.
  case appendedOffset
  /// The delay of the next sync: the nanoseconds after the request within which it must begin; the
  /// maximum when no sync is due.
  case pendingDelay
}

/// The writer (W) appends and then requests a sync in time; the committing thread (C) begins a
/// sync. They must not miss each other: an operation that the sync does not cover needs another
/// sync.
///
///     W1  store appendedSequence = n              C1  store pendingDelay = none
///     W2  fence                                   C2  fence
///     W3  load pendingDelay                       C3  load appendedSequence
///         none, or too late: set a deadline           sync through that
///
/// **Why nothing is missed.** The two fences are sequentially consistent, so one is first.
///
/// W2 before C2: C3 comes after C2 and W1 before W2, so C3 reads n or more, and the sync covers n.
///
/// C2 before W2: W3 comes after W2 and C1 before C2, so W3 reads the value that C1 stored or a
/// younger one. "None": W sets a deadline. A younger value is a delay that a later request stored,
/// together with its deadline and under the lock; the sync that removes that deadline stores "none"
/// in a C1' of its own, which is younger still. W3 did not read that "none", so C2' is not before
/// W2, and by the first case C3' reads n or more.
///
/// In each case a sync that begins no later than the delay after W3 covers n. Without a fence on
/// either side both loads may read the old value, even on x86: each processor's store waits in its
/// buffer while its load is executed (Dekker's algorithm fails in this way).
///
/// **Why the offset is right.** A sync claims the offset that C4 loads, after C3. It must not claim
/// more than was written: the writer's bytes are ordered before its releasing store of the offset,
/// and C4 acquires. It must not claim less than the sequence: the offset is stored before the
/// sequence is released, and loaded after the sequence was acquired.
extension WordMemory where Place == CommitWord {
  /// W1: publishes that all bytes up to here are in the kernel.
  @inline(__always)
  func publish(sequence: UInt64, offset: UInt64) throws(Stop) {
    try store(offset, releasing: .appendedOffset)
    try store(sequence, releasing: .appendedSequence)
  }

  /// W2, W3: whether a sync that covers the published operations is due and begins in time.
  @inline(__always)
  func hasSync(withinNanoseconds delay: UInt64) throws(Stop) -> Bool {
    try sequentiallyConsistentFence()
    // Relaxed: the fence orders it, and no other memory is read by its value.
    return try load(relaxed: .pendingDelay) <= delay
  }

  /// C1 to C4: returns what the sync that begins now covers.
  @inline(__always)
  func beginSync() throws(Stop) -> (sequence: UInt64, offset: UInt64) {
    // Relaxed: the fence orders it; stores of this word are ordered by the pipeline's lock.
    try store(.max, relaxed: .pendingDelay)
    try sequentiallyConsistentFence()
    let sequence = try load(acquiring: .appendedSequence)
    return (sequence, try load(acquiring: .appendedOffset))
  }
}

extension CommitPipeline: WordMemory {
  @inline(__always)
  func load(relaxed word: CommitWord) -> UInt64 {
    switch word {
    case .appendedSequence: appendedSequence.load(ordering: .relaxed)
    case .appendedOffset: appendedOffset.load(ordering: .relaxed)
    case .pendingDelay: pendingDelay.load(ordering: .relaxed)
    }
  }

  @inline(__always)
  func load(acquiring word: CommitWord) -> UInt64 {
    switch word {
    case .appendedSequence: appendedSequence.load(ordering: .acquiring)
    case .appendedOffset: appendedOffset.load(ordering: .acquiring)
    case .pendingDelay: pendingDelay.load(ordering: .acquiring)
    }
  }

  @inline(__always)
  func store(_ value: UInt64, relaxed word: CommitWord) {
    switch word {
    case .appendedSequence: appendedSequence.store(value, ordering: .relaxed)
    case .appendedOffset: appendedOffset.store(value, ordering: .relaxed)
    case .pendingDelay: pendingDelay.store(value, ordering: .relaxed)
    }
  }

  @inline(__always)
  func store(_ value: UInt64, releasing word: CommitWord) {
    switch word {
    case .appendedSequence: appendedSequence.store(value, ordering: .releasing)
    case .appendedOffset: appendedOffset.store(value, ordering: .releasing)
    case .pendingDelay: pendingDelay.store(value, ordering: .releasing)
    }
  }
}
