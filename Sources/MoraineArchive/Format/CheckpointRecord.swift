package import MoraineFormat

/// A checkpoint: the object `chk/<number>`, which names a state of the store that needs no earlier
/// commit. Checkpoints are never removed; their contents may be.
package struct CheckpointRecord: ArchiveRecord {
  package static let magic = Array("MORAINEK".utf8)
  package static let title = "a checkpoint"

  package var archiveID: StoreIdentifier
  /// The number of the checkpoint, counted from 1.
  package var number: UInt64
  /// The position of the commit at whose cut the checkpoint has the state of the store.
  package var position: UInt64
  /// The term of the writer that made the checkpoint.
  package var term: UInt64
  /// The nonce of the commit.
  package var commitNonce: Nonce
  /// The epoch of the store at the cut.
  package var epoch: UInt64
  /// The last sequence number at the cut.
  package var sequence: SequenceNumber
  /// The state digest at the cut.
  package var digest: StateDigest
  /// The number of live records at the cut.
  package var liveCount: UInt64
  /// The time of the cut since 1970: a label.
  package var milliseconds: UInt64
  /// The object with the checkpoint's contents.
  package var contents: ContentsReference

  package init(
    archiveID: StoreIdentifier, number: UInt64, position: UInt64, term: UInt64, commitNonce: Nonce,
    epoch: UInt64, sequence: SequenceNumber, digest: StateDigest, liveCount: UInt64,
    milliseconds: UInt64, contents: ContentsReference
  ) {
    (self.archiveID, self.number, self.position) = (archiveID, number, position)
    (self.term, self.commitNonce, self.epoch) = (term, commitNonce, epoch)
    (self.sequence, self.digest, self.liveCount) = (sequence, digest, liveCount)
    (self.milliseconds, self.contents) = (milliseconds, contents)
  }

  package func encodeFields(to writer: inout ByteWriter) {
    writer.append(archiveID)
    writer.append(number)
    writer.append(position)
    writer.append(term)
    writer.append(commitNonce)
    writer.append(epoch)
    writer.append(sequence.rawValue)
    writer.append(digest)
    writer.append(liveCount)
    writer.append(milliseconds)
    writer.append(contents)
  }

  package init(decodingFields reader: inout ByteReader) throws(FormatError) {
    self.init(
      archiveID: try reader.readIdentifier(),
      number: try reader.readNumber(
        "number of a checkpoint", through: ArchiveLimits.checkpoint),
      position: try reader.readNumber("position", through: ArchiveLimits.position),
      term: try reader.readNumber("term", through: ArchiveLimits.term),
      commitNonce: try reader.readNonce(),
      epoch: try reader.readNumber("epoch", through: StoreLimits.manifestCounter),
      sequence: try reader.readSequence(), digest: try reader.readDigest(),
      liveCount: try reader.read(), milliseconds: try reader.read(),
      contents: try reader.readContentsReference())
    guard contents.name.term <= term else {
      throw FormatError("the contents of a checkpoint are of a later term", at: 116)
    }
  }
}
