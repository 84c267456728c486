/// Something that happened to a store and that nobody was waiting for, or that whoever runs the
/// program wants to know: what ``Configuration/onEvent`` is called with.
///
/// Reading and writing make no events. More kinds may come: always have a `default`.
public enum StoreEvent: Sendable {
  /// The store is open: what opening found and did. Also when the first write made the store, and
  /// after ``Store/resume()``; in a shared store also when another process had made it.
  case opened(RecoveryReport)
  /// A full segment, or the last one when the store is closed, is on stable storage and will not be
  /// written to any more. How long it is, in bytes.
  case segmentSealed(SegmentNumber, lengthBytes: UInt64)
  /// Neighbouring segments were rewritten as one, or dropped; how long it took, pauses included, in
  /// nanoseconds. Told of ``Store/compact(_:)`` too.
  case compacted(CompactionReport, elapsedNanoseconds: UInt64)
  /// A compaction in the background ended early, or left out a segment that is damaged. As
  /// ``Store/compactionFailure``.
  case compactionFailed(StoreError)
  /// An index checkpoint was written; how long it is, in bytes, and how long that took, in
  /// nanoseconds.
  case checkpointWritten(lengthBytes: UInt64, elapsedNanoseconds: UInt64)
  /// An index checkpoint was not written, so that opening takes longer, or one that it replaces was
  /// not removed. As ``Store/checkpointFailure``.
  case checkpointFailed(StoreError)
  /// After a segment was sealed in the background the manifest could not be written, for want of
  /// space perhaps. Nothing is lost: the next manifest says the same.
  case manifestFailed(StoreError)
  /// An operation found no space on the disk. Told once, until space for more values was found.
  case outOfSpace(StoreError)
  /// The store has stopped writing for good, because a failure left it unknown what the disk holds:
  /// close it and open it again. Told once.
  case poisoned(StoreError)
  /// The store gave up its locks in ``Store/suspend()``, and what that threw, if it did.
  case suspended(failure: StoreError?)
  /// The store was closed, and what ``Store/close()`` threw, if it did. The last event.
  case closed(failure: StoreError?)
}
