package import MoraineFormat
import Synchronization

/// Segments that compaction has replaced, and whose bytes are needed for the copy of the log
/// elsewhere. The store adds them before their files are removed.
///
/// Thread safety: the state is in a mutex.
package final class RetiredSegments: Sendable {
  private struct State {
    /// The number of the last operation that the copy has.
    var shipped: SequenceNumber
    var segments: [SegmentBytes] = []
    var heldBytes = 0
    var hasLetGo = false
    var isComplete = true
  }

  private let state: Mutex<State>
  private let limitBytes: Int

  /// - Parameters:
  ///   - sequence: the number of the last operation that the copy has.
  ///   - limitBytes: the most bytes that are held. Beyond it the oldest segments are let go.
  package init(shippedThrough sequence: SequenceNumber, limitBytes: Int) {
    state = Mutex(State(shipped: sequence))
    self.limitBytes = limitBytes
  }

  /// The bytes of the segments that are held: on the disk, or of mappings.
  package var heldBytes: Int { state.withLock { $0.heldBytes } }

  /// Records that the copy has all operations up to a number, and releases what it has.
  package func shipped(through sequence: SequenceNumber) {
    // Released when no thread has the lock.
    let released = state.withLock { state -> [SegmentBytes] in
      state.shipped = max(state.shipped, sequence)
      let released = state.segments.filter { $0.entry.lastSequence <= state.shipped }
      state.segments.removeAll { $0.entry.lastSequence <= state.shipped }
      state.heldBytes -= released.reduce(0) { $0 + $1.lengthBytes }
      assert(state.heldBytes >= 0, "more bytes are released than held")
      return released
    }
    withExtendedLifetime(released) {}
  }

  /// Whether no other hold has had the place of this one in the store since this one was attached.
  package var isComplete: Bool { state.withLock { $0.isComplete } }

  /// Records that another hold takes the place of this one.
  func interrupt() { state.withLock { $0.isComplete = false } }

  /// The segments that are held, in the order of the log.
  package var segments: [SegmentBytes] { state.withLock { $0.segments } }

  /// Returns the segments that are held, in the order of the log, and whether segments were let go
  /// since the last call: then the copy has a gap.
  package func take() -> (segments: [SegmentBytes], hasGap: Bool) {
    state.withLock { state in
      defer { state.hasLetGo = false }
      return (state.segments, state.hasLetGo)
    }
  }

  /// Whether a segment with these operations is needed.
  func wants(_ entry: Manifest.Segment) -> Bool {
    state.withLock { state in
      entry.recordCount > 0 && !entry.flags.contains(.compacted)
        && entry.lastSequence > state.shipped
    }
  }

  /// Adds a segment that ``wants(_:)`` has named. Segments come in the order of the log.
  func add(_ segment: SegmentBytes) {
    let released = state.withLock { state -> [SegmentBytes] in
      // A compaction that failed has added its inputs before.
      if state.segments.contains(where: { $0.identity == segment.identity }) { return [] }
      state.segments.append(segment)
      state.heldBytes += segment.lengthBytes
      state.segments.sort { $0.entry.firstSequence < $1.entry.firstSequence }
      var released: [SegmentBytes] = []
      while state.heldBytes > limitBytes, !state.segments.isEmpty {
        released.append(state.segments.removeFirst())
        state.heldBytes -= released[released.count - 1].lengthBytes
        state.hasLetGo = true
      }
      return released
    }
    withExtendedLifetime(released) {}
  }
}
