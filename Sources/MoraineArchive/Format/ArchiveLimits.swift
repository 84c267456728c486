import MoraineFormat

/// The limits of the archive's format, as `ArchiveFormat.md` lists them.
package enum ArchiveLimits {
  /// The version of the format that this code writes, and the newest version that it reads.
  package static let version: UInt16 = 1

  /// The highest term. A name has ten digits for it.
  package static let term: UInt64 = 9_999_999_999
  /// The highest number of a checkpoint. A name has ten digits for it.
  package static let checkpoint: UInt64 = 9_999_999_999
  /// The highest position of a commit. A name has fifteen digits for it.
  package static let position: UInt64 = 999_999_999_999_999

  /// The longest name of a writer or of a keyspace, in bytes of UTF-8.
  package static let textLengthBytes = 255
  /// The most pieces of one commit.
  package static let pieceCount = 65_536
  /// The most raw bytes that the pieces of one commit have together.
  package static let payloadBytes = 64 << 20
  /// The longest header of a commit, in bytes.
  package static let commitHeaderBytes = 16 << 20
  /// The most raw bytes of a checkpoint's contents.
  package static let contentsBytes = 512 << 20

  /// The most bytes of a record: of the identity, a term, a checkpoint or the hint.
  package static let recordBytes = 64 << 10
  /// The most bytes of a commit's object.
  package static let commitBytes = commitHeaderBytes + payloadBytes + payloadBytes / 64 + (1 << 20)
  /// The most bytes of the object with a checkpoint's contents.
  package static let contentsObjectBytes = contentsBytes + contentsBytes / 64 + (1 << 20)

  /// The lengths that the blocks of a container may have, in bytes.
  package static let blockBytes = (4 << 10)...(16 << 20)
  /// The most raw bytes of a container: the longest segment.
  package static let containerBytes = Int(clamping: StoreLimits.segmentLengthBytes)
}
