package import MoraineFormat
import MoraineStorage
import Synchronization

/// The state of a store at one moment: a place of the log between two units, all segments up to
/// that place, and the digest of what was live.
///
/// A cut needs no snapshot of the index, because nothing but the log is copied. The log before its
/// end is never written again, and the segments stay readable as long as the cut exists. Where the
/// store maps no files, they stay readable until it leaves its directory.
package struct LogCut: Sendable {
  /// The manifest of a backup of this state, without its list of segments.
  package private(set) var head: Manifest
  /// The segments, in the manifest's order. All are listed as sealed. The segment that was active
  /// may have no footer; it ends where the log ended at that moment.
  package let segments: [SegmentBytes]
  /// The number of live keys, those included that have expired and were not deleted yet.
  package let count: Int
  /// The last number that was used up, which may be after ``sequence``.
  package let usedSequence: SequenceNumber
  /// The number of the store's stay in its directory: another process may have written, and
  /// compacted, between two stays.
  package let stay: UInt64
  let directory: any StorageDirectory
  /// The last operation that the disk held when the cut was made.
  private let durableSequence: UInt64
  private let pipeline: CommitPipeline

  /// The number of the last operation, or a later one that an append which failed has used up.
  package var sequence: SequenceNumber { head.lastSequence }

  /// The manifest of a backup of this state, with its list of segments.
  ///
  /// - Complexity: O(segments). A cut is taken each second, and few of them need the list.
  package var manifest: Manifest {
    var manifest = head
    manifest.segments = segments.map(\.entry)
    return manifest
  }

  /// Returns whether the disk holds all bytes of the segment at an index of the manifest's order. A
  /// failed sync of the store's name for a file may drop bytes. A later sync of the backup's name
  /// for the same file does not bring them back.
  ///
  /// Where no sync has failed yet, the footer of a full segment may still be in the file cache
  /// alone: the caller syncs the file, and asks again.
  func isDurable(_ index: Int) -> Bool {
    guard segments[index].entry.lastSequence.rawValue <= durableSequence else { return false }
    // The sync that failed may be that of a footer, which has no sequence number: it was left out
    // of the count. Only the last segment with records and the one before it can wait for a seal.
    return index < segments.count - 2 || !pipeline.hasPoison
  }

  /// Whether the names of the segments' files still lead to these files.
  var isInItsDirectory: Bool { pipeline.stay == stay }

  /// Returns this cut without the numbers after `number` that no operation has. The last operation
  /// is in a segment, or it is a delete that compaction has dropped.
  ///
  /// - Complexity: O(segments).
  func ending(at number: SequenceNumber) -> LogCut {
    guard number < head.lastSequence else { return self }
    let last = segments.reduce(max(number, head.feedHorizon)) { max($0, $1.entry.lastSequence) }
    var cut = self
    cut.head.lastSequence = min(head.lastSequence, last)
    return cut
  }

  /// - Complexity: O(segments). What the cut before has of a sealed segment that is mapped is used
  ///   again, so a segment takes 20 ns then, and 170 otherwise.
  init(_ engine: inout EngineState, _ live: LiveSnapshots) throws(StoreError) {
    directory = engine.directory
    let files = FilesOfStay(
      snapshot: SnapshotFilePin(live), pipeline: engine.pipeline, stay: engine.pipeline.stay)
    var head = engine.log.nextManifestWithoutSegments()
    (head.watermarkSegment, head.watermarkOffset) = (0, 0)
    head.digest = engine.live.digest
    head.isBackup = true
    (head.attachment, head.following) = (nil, nil)
    var segments: [SegmentBytes] = []
    segments.reserveCapacity(engine.log.table.order.count)
    (pipeline, stay) = (files.pipeline, files.stay)
    durableSequence = engine.pipeline.durableSequence.load(ordering: .acquiring)
    for slot in engine.log.table.order {
      guard let bytes = try engine.lend(slot, files) else { continue }
      segments.append(bytes)
    }
    assert(segments.allSatisfy(\.entry.isSealed), "a cut lists an open segment")
    (self.head, self.segments, usedSequence) = (head, segments, head.lastSequence)
    count = engine.live.count
  }
}

/// The files of a store during one stay in its directory: compaction keeps them. After the stay
/// another process may remove them, or write other files with their names.
private struct FilesOfStay: FilePin {
  let snapshot: SnapshotFilePin
  let pipeline: CommitPipeline
  let stay: UInt64

  /// A store ends its stay before it releases the directory.
  func check() throws(StoreError) {
    if pipeline.stay == stay { return }
    let isClosed = pipeline.hasEndedLastStay.load(ordering: .sequentiallyConsistent)
    throw isClosed ? .ofClosedStore : .ofSuspendedStore
  }
}

extension SegmentTable {
  /// Returns what the last cut of the log has of a segment, if a cut has the same now.
  fileprivate func lentBytes(of slot: Int) -> SegmentBytes? {
    guard let lent = infos[slot].lent, lent.entry.flags == infos[slot].flags,
      lent.entry.lengthBytes == UInt64(views[slot].end),
      lent.entry.liveBytes == infos[slot].liveBytes(views[slot])
    else { return nil }
    return lent
  }
}

extension EngineState {
  /// Returns the bytes of a segment at the present moment; nil for an open one without records.
  fileprivate mutating func lend(
    _ slot: Int, _ files: FilesOfStay
  ) throws(StoreError) -> SegmentBytes? {
    if let lent = log.table.lentBytes(of: slot) { return lent }
    guard let entry = try sealedEntry(slot) else { return nil }
    let (view, info) = (log.table[slot], log.table.infos[slot])
    let pin = info.mapping == nil ? files : nil
    let bytes = SegmentBytes(entry, info, view, directory, pin: pin)
    // A pin keeps files on the disk for as long as it exists.
    if info.mapping != nil, info.flags.contains(.sealed) { log.table.infos[slot].lent = bytes }
    return bytes
  }

  /// Returns a segment as a manifest lists it after the present moment, sealed; nil for an open
  /// segment without records.
  fileprivate mutating func sealedEntry(_ slot: Int) throws(StoreError) -> Manifest.Segment? {
    var view = log.table[slot]
    var info = log.table.infos[slot]
    if !info.flags.contains(.sealed) {
      guard view.recordCount > 0 else { return nil }
      view.end = log.publishedEnd(of: slot)
      info.flags.insert(.sealed)
      if try !scanner(slot, length: view.end).hasFooter(before: view.end) {
        info.flags.insert(.cut)
      }
    }
    return info.entry(view)
  }
}
