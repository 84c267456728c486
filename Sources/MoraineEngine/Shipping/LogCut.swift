package import MoraineFormat
import MoraineStorage
import Synchronization

/// The state of a store at one moment: a place of the log between two units, all segments up to
/// that place, and the digest of what was live.
///
/// A cut needs no snapshot of the index, because nothing but the log is copied. The log before its
/// end is never written again, and the segments stay readable as long as the cut exists.
package struct LogCut: Sendable {
  /// The manifest of a backup of this state. It lists all segments as sealed. The segment that was
  /// active may have no footer; it ends where the log ended at that moment.
  package let manifest: Manifest
  /// The segments, in the manifest's order.
  package let segments: [SegmentBytes]
  /// The number of live keys, those included that have expired and were not deleted yet.
  package let count: Int
  let directory: any StorageDirectory
  /// Whether the disk holds all bytes of a segment, for each one in the manifest's order. A failed
  /// sync of the store's name for a file may drop bytes. A later sync of the backup's name for the
  /// same file does not bring them back.
  let areDurable: [Bool]

  /// The number of the last operation.
  package var sequence: SequenceNumber { manifest.lastSequence }

  init(_ engine: inout EngineState, _ live: LiveSnapshots) throws(StoreError) {
    directory = engine.directory
    let pin = SnapshotFilePin(live)
    var manifest = engine.nextManifest()
    (manifest.watermarkSegment, manifest.watermarkOffset) = (0, 0)
    manifest.digest = engine.live.digest
    manifest.isBackup = true
    (manifest.attachment, manifest.following) = (nil, nil)
    manifest.segments = []
    var segments: [SegmentBytes] = []
    var areDurable: [Bool] = []
    let durableSequence = engine.pipeline.durableSequence.load(ordering: .acquiring)
    for slot in engine.log.table.order {
      let view = engine.log.table[slot]
      guard let entry = try engine.sealedEntry(slot) else { continue }
      manifest.segments.append(entry)
      areDurable.append(view.lastSequence <= durableSequence)
      let info = engine.log.table.infos[slot]
      segments.append(
        SegmentBytes(entry, info, view, directory, pin: info.mapping == nil ? pin : nil))
    }
    assert(manifest.segments.allSatisfy(\.isSealed), "a cut lists an open segment")
    (self.manifest, self.segments, self.areDurable) = (manifest, segments, areDurable)
    count = engine.live.count
  }
}

extension EngineState {
  /// Returns a segment as a manifest lists it after the present moment, sealed; nil for an open
  /// segment without records.
  fileprivate mutating func sealedEntry(_ slot: Int) throws(StoreError) -> Manifest.Segment? {
    let view = log.table[slot]
    var info = log.table.infos[slot]
    if !info.flags.contains(.sealed) {
      guard view.recordCount > 0 else { return nil }
      info.flags.insert(.sealed)
      if try !scanner(slot, length: view.end).hasFooter(before: view.end) {
        info.flags.insert(.cut)
      }
    }
    return info.entry(view)
  }
}
