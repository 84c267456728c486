/// An event of a store that no caller waits for, or that the operator of the program wants to know.
/// The store calls ``Store/Configuration/onEvent`` with it.
///
/// Reading and writing make no events. Later versions may add events, so always have a `default`.
public enum StoreEvent: Sendable {
  /// The store is open; the report says what opening found and did. This event also follows the
  /// first write, when that created the store, and ``Store/resume()``; in a shared store it also
  /// follows when another process has created the store.
  case opened(RecoveryReport)
  /// A segment is on stable storage and will not be written to any more: a full one, or the last
  /// one when the store is closed. `lengthBytes` is its length.
  case segmentSealed(SegmentNumber, lengthBytes: UInt64)
  /// Neighbouring segments were rewritten as one, or dropped. The time includes pauses.
  /// ``Store/compact(_:)`` makes this event too.
  case compacted(CompactionReport, elapsedNanoseconds: UInt64)
  /// A background compaction ended early, or left out a damaged segment. See
  /// ``Store/compactionFailure``.
  case compactionFailed(StoreError)
  /// An index checkpoint was written, with its length and the time that this took.
  case checkpointWritten(lengthBytes: UInt64, elapsedNanoseconds: UInt64)
  /// An index checkpoint was not written, so that opening takes longer, or the checkpoint that it
  /// replaces was not removed. See ``Store/checkpointFailure``.
  case checkpointFailed(StoreError)
  /// The manifest could not be written after a segment was sealed in the background, for example
  /// because the disk was full. Nothing is lost: the next manifest says the same.
  case manifestFailed(StoreError)
  /// An operation found no space on the disk. The event does not repeat until the store has found
  /// space for more values.
  case outOfSpace(StoreError)
  /// The store has stopped writing for good, because a failure left the contents of the disk
  /// unknown: close it and open it again. The event happens once.
  case poisoned(StoreError)
  /// The store released its locks in ``Store/suspend()``. `failure` is the error that the call
  /// threw, if any.
  case suspended(failure: StoreError?)
  /// The store was closed. `failure` is the error that ``Store/close()`` threw, if any. This is the
  /// last event.
  case closed(failure: StoreError?)
}
