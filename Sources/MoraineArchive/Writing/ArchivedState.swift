import MoraineEngine
import MoraineFormat

/// The state of a store that an archive holds at the end of a commit, which ends at a cut.
struct ArchivedState: Sendable {
  var position: UInt64
  var nonce: Nonce
  var term: UInt64
  var epoch: UInt64
  var sequence: SequenceNumber
  var digest: StateDigest
  var count: UInt64
  /// The end of the log; nil when the archive has no byte of it yet.
  var logEnd: LogPlace?

  /// The state before the first commit.
  static let empty = ArchivedState(
    position: 0, nonce: .zero, term: 0, epoch: 1, sequence: .none, digest: StateDigest(), count: 0)

  init(
    position: UInt64, nonce: Nonce, term: UInt64, epoch: UInt64, sequence: SequenceNumber,
    digest: StateDigest, count: UInt64, logEnd: LogPlace? = nil
  ) {
    (self.position, self.nonce, self.term, self.epoch) = (position, nonce, term, epoch)
    (self.sequence, self.digest, self.count, self.logEnd) = (sequence, digest, count, logEnd)
  }

  init(_ header: CommitHeader) {
    precondition(header.endsAtCut, "the state between two cuts is not known")
    self.init(
      position: header.position, nonce: header.nonce, term: header.term, epoch: header.epoch,
      sequence: header.lastSequence, digest: header.digest, count: header.liveCount,
      logEnd: header.logEnd)
  }

  /// The state of a checkpoint, without the end of the log.
  init(_ record: CheckpointRecord) {
    self.init(
      position: record.position, nonce: record.commitNonce, term: record.term,
      epoch: record.epoch, sequence: record.sequence, digest: record.digest,
      count: record.liveCount)
  }

  var base: CommitHeader.Base {
    CommitHeader.Base(position: position, sequence: sequence, digest: digest)
  }
}

extension SegmentBytes {
  /// The place at the end of the segment's first bytes.
  func place(_ offset: Int) -> LogPlace {
    LogPlace(
      segment: identity.number, epoch: identity.epoch, salt: identity.salt, offset: UInt64(offset))
  }

  /// Whether a place is in this segment.
  func holds(_ place: LogPlace) -> Bool {
    identity.number == place.segment && identity.epoch == place.epoch
      && identity.salt == place.salt
  }
}

extension LogCut {
  /// The place at which the log ends; nil when the log has no segment.
  var logEnd: LogPlace? {
    (segments.last { !$0.isCompacted } ?? segments.last).map { $0.place($0.lengthBytes) }
  }

  /// The keyspaces, as a commit lists them.
  var keyspaces: [CommitHeader.Keyspace] {
    let named = head.keyspaces.map {
      CommitHeader.Keyspace(
        id: $0.id, isOrdered: head.ordered.contains($0.id), name: $0.name)
    }
    guard head.ordered.contains(0) else { return named }
    return [CommitHeader.Keyspace(id: 0, isOrdered: true, name: "")] + named
  }
}

/// The bytes of the log that a round ships: everything between two cuts.
struct LogTail: Sendable {
  struct Part: Sendable {
    let segment: SegmentBytes
    let range: Range<Int>
  }

  let parts: [Part]

  var byteCount: Int { parts.reduce(0) { $0 + $1.range.count } }

  /// Finds the bytes after a place of the log, in the segments at a cut and in those that
  /// compaction has replaced; nil when operations in between are in none of them.
  ///
  /// - Parameters:
  ///   - state: the archive's state at its last cut.
  ///   - place: the end of the log in the archive, which may be after that cut.
  ///   - hasAll: whether no segment was removed since that cut but the retired ones. A number that
  ///     no segment has was then used up by an append that failed.
  init?(
    after state: ArchivedState, _ place: LogPlace?, _ cut: LogCut, _ retired: [SegmentBytes],
    hasAll: Bool
  ) {
    let present = Set(cut.segments.map(\.identity))
    // Segments may have been begun and replaced since the cut. They belong to the next round: its
    // place of the log must not be after bytes of this cut that were not shipped.
    let replaced = retired.filter {
      !present.contains($0.identity) && $0.entry.firstSequence <= cut.sequence
    }
    let appended = (replaced + cut.segments)
      .filter { !$0.isCompacted && $0.entry.recordCount > 0 }
      .sorted { $0.entry.firstSequence < $1.entry.firstSequence }
    var last = state.sequence
    // The number of the last segment whose end was shipped. Where compaction has replaced the
    // segment of the place, it may have had more operations after the place.
    var number: UInt64?
    var parts: [Part] = []
    var rest = appended[...]
    if let place, let index = appended.firstIndex(where: { $0.holds(place) }) {
      // The segments before it were shipped, also where the next cut was not reached.
      let (segment, start) = (appended[index], Int(clamping: place.offset))
      guard start <= segment.lengthBytes else { return nil }
      if start < segment.lengthBytes {
        parts.append(Part(segment: segment, range: start..<segment.lengthBytes))
      }
      (last, number) = (max(last, segment.entry.lastSequence), segment.identity.number.rawValue)
      rest = appended[(index + 1)...]
    } else if place != state.logEnd {
      return nil
    }
    for segment in rest where segment.entry.lastSequence > last {
      // Numbers of segments only grow, so no segment was between two that are adjacent.
      let isNext = number.map { $0 + 1 == segment.identity.number.rawValue } ?? false
      guard hasAll || isNext || segment.entry.firstSequence.rawValue == last.rawValue + 1 else {
        return nil
      }
      parts.append(Part(segment: segment, range: 0..<segment.lengthBytes))
      (last, number) = (segment.entry.lastSequence, segment.identity.number.rawValue)
    }
    // A segment after the last one would have had the next number.
    let isLast = number.map { $0 + 1 >= cut.head.nextSegmentNumber } ?? false
    guard hasAll || isLast || last >= cut.sequence else { return nil }
    self.parts = parts
  }

  /// Divides the bytes into commits.
  ///
  /// - Parameter limit: the most bytes of one commit.
  func commits(_ limit: Int) -> [[Part]] {
    var result: [[Part]] = [[]]
    var room = limit
    for part in parts {
      var start = part.range.lowerBound
      while start < part.range.upperBound {
        if room == 0 {
          result.append([])
          room = limit
        }
        let count = min(room, part.range.upperBound - start)
        result[result.count - 1].append(Part(segment: part.segment, range: start..<start + count))
        start += count
        room -= count
      }
    }
    return result
  }
}
