import MoraineFormat
import MoraineStorage
import SystemPackage

extension RestoreWork {
  /// The manifest that a restored store begins with: what the backup holds, up to the number that
  /// was asked for, and then a new epoch. Changes of the old one that came later are no part of
  /// this store's history, even where their numbers come again.
  func newLife(
    of old: Manifest, in source: any StorageDirectory
  ) throws(StoreError) -> Manifest {
    var manifest = old
    if let sequence { try rewind(&manifest, to: sequence, in: source) }
    manifest.isBackup = false
    manifest.instanceID = Identifier(low: Machine.randomNumber(), high: Machine.randomNumber())
    manifest.forgetCuts()
    manifest.epoch += 1
    manifest.generation += 1
    manifest.createdMilliseconds = Machine.wallMilliseconds()
    manifest.epochs.append(
      Manifest.Epoch(
        epoch: manifest.epoch,
        firstSequence: SequenceNumber(rawValue: manifest.lastSequence.rawValue + 1),
        instanceID: manifest.instanceID))
    return manifest
  }

  private func rewind(
    _ manifest: inout Manifest, to sequence: SequenceNumber, in source: any StorageDirectory
  ) throws(StoreError) {
    guard sequence <= manifest.lastSequence else {
      throw StoreError(
        .sequenceUnavailable,
        "the backup ends at sequence \(manifest.lastSequence); it does not reach \(sequence)",
        file: backup.string)
    }
    guard sequence >= manifest.compactedThrough else {
      throw StoreError(
        .sequenceUnavailable,
        "compaction has dropped what was replaced up to sequence \(manifest.compactedThrough); "
          + "choose that one or a later one, or an older backup", file: backup.string)
    }
    var kept: [Manifest.Segment] = []
    for entry in manifest.segments {
      if entry.recordCount == 0 || entry.lastSequence <= sequence {
        kept.append(entry)
      } else if entry.firstSequence <= sequence {
        let cut = try SegmentCut(
          of: entry.number.fileName, in: source, lengthBytes: Int(entry.lengthBytes),
          through: sequence)
        // Of a batch that goes beyond the number, nothing.
        if cut.recordCount > 0 { kept.append(cut.entry(entry)) }
      }
    }
    manifest.segments = kept
    manifest.lastSequence = sequence
    manifest.digest = StateDigest()
  }
}
