import MoraineFormat
import MoraineStorage
import Synchronization

/// A store at one moment, as its backup will have it.
///
/// Needs no snapshot: the log up to a place is never written again, and nobody asks the index.
struct BackupSource: Sendable {
  let directory: any StorageDirectory
  /// All of its segments count as sealed; what was appended to last has no footer, and ends where
  /// the log ended.
  let manifest: Manifest
  /// Of its segments, in its order: they stay when compaction removes the files.
  private let mappings: [(any FileMapping)?]
  /// For each segment, in its order: whether the disk holds it. A sync of the backup's name for a
  /// file does not bring back what a failed sync of the store's name has dropped.
  private let areDurable: [Bool]
  /// Where segments are not mapped, their files stay.
  private let hold: FileHold

  init(_ engine: inout EngineState, _ living: LivingSnapshots) throws(StoreError) {
    directory = engine.directory
    hold = FileHold(living)
    var manifest = engine.nextManifest()
    (manifest.watermarkSegment, manifest.watermarkOffset) = (0, 0)
    manifest.digest = engine.digest
    manifest.isBackup = true
    manifest.segments = []
    var mappings: [(any FileMapping)?] = []
    var areDurable: [Bool] = []
    let durableSequence = engine.pipeline.durableSequence.load(ordering: .acquiring)
    for slot in engine.table.order {
      let view = engine.table[slot]
      var info = engine.table.infos[slot]
      if !info.flags.contains(.sealed) {
        guard view.recordCount > 0 else { continue }
        info.flags.insert(.sealed)
        if try !engine.scanner(slot, length: view.end).hasFooter(before: view.end) {
          info.flags.insert(.cut)
        }
      }
      manifest.segments.append(info.entry(view))
      mappings.append(info.mapping)
      areDurable.append(view.lastSequence <= durableSequence)
    }
    self.manifest = manifest
    self.areDurable = areDurable
    self.mappings = mappings
  }

  func piece(_ index: Int) -> SegmentCarrier.Piece {
    SegmentCarrier.Piece(
      manifest.segments[index], mapping: mappings[index], isDurable: areDurable[index])
  }
}
