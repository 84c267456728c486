package import MoraineFormat

/// The hint where the newest objects of an archive are. A reader begins its search there. The hint
/// may be old or wrong, so no decision depends on it.
package struct HeadHint: ArchiveRecord {
  package static let magic = Array("MORAINEH".utf8)
  package static let title = "a hint"

  package var archiveID: StoreIdentifier
  /// A term that existed; 0 for none.
  package var term: UInt64
  /// The number of a checkpoint that existed; 0 for none.
  package var checkpoint: UInt64
  /// The position of a commit that existed; 0 for none.
  package var position: UInt64

  package init(archiveID: StoreIdentifier, term: UInt64, checkpoint: UInt64, position: UInt64) {
    (self.archiveID, self.term) = (archiveID, term)
    (self.checkpoint, self.position) = (checkpoint, position)
  }

  package func encodeFields(to writer: inout ByteWriter) {
    writer.append(archiveID)
    writer.append(term)
    writer.append(checkpoint)
    writer.append(position)
  }

  package init(decodingFields reader: inout ByteReader) throws(FormatError) {
    self.init(
      archiveID: try reader.readIdentifier(), term: try reader.read(),
      checkpoint: try reader.read(), position: try reader.read())
    guard term <= ArchiveLimits.term, checkpoint <= ArchiveLimits.checkpoint,
      position <= ArchiveLimits.position
    else { throw FormatError("a number of a hint has too many digits", at: 28) }
  }
}
