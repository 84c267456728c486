/// The head of an index checkpoint file: the segments that the checkpoint covers, the index's
/// shape, and a checksum for each page of the index that follows. Layout: `FileFormat.md`, "Index
/// checkpoint".
package struct CheckpointHeader: Equatable, Sendable {
  /// The figures of one segment that the checkpoint covers.
  package struct Segment: Equatable, Sendable {
    package var number: SegmentNumber
    /// The salt in the segment's header. A segment with the same number and another salt is a
    /// different segment.
    package var salt: UInt64 = 0
    package var epoch: UInt64 = 0
    /// The index contains the records before this offset.
    package var endOffset: UInt64 = 0
    package var recordCount: UInt64 = 0
    package var firstSequence: UInt64 = 0
    package var lastSequence: UInt64 = 0
    package var liveBytes: UInt64 = 0
    package var deleteBytes: UInt64 = 0
    package var digest = StateDigest()
    package var earliestExpiry = UInt64.max
    package var cleanedThrough: UInt64 = 0
    /// The number by which the index's entries name the segment.
    package var slot: UInt32 = 0
    /// Checksum of the last bytes before ``endOffset``, for a segment that was not sealed; see
    /// ``CheckpointHeader/tailLength``.
    package var tailChecksum: UInt32 = 0

    package init(number: SegmentNumber) {
      self.number = number
    }
  }

  /// The live records of a keyspace other than the unnamed one.
  package struct Keyspace: Equatable, Sendable {
    package var id: UInt16
    package var recordCount: UInt64
    package var liveBytes: UInt64

    package init(id: UInt16, recordCount: UInt64, liveBytes: UInt64) {
      self.id = id
      self.recordCount = recordCount
      self.liveBytes = liveBytes
    }
  }

  package static let fixedLength = 128
  /// The number of bytes before ``Segment/endOffset`` that a segment's tail checksum covers, if
  /// that many follow the segment's header.
  package static let tailLength = 4096
  static let magic = Array("MORAINEI".utf8)
  static let segmentLength = 112
  static let keyspaceLength = 24
  static let keyspacesUncounted: UInt16 = 0xFFFF
  /// A page has 1024 buckets of 64 bytes.
  package static let pageBytes = 65_536

  package var storeID: StoreIdentifier
  package var epoch: UInt64 = 0
  package var lastSequence: UInt64 = 0
  package var digest = StateDigest()
  package var keyCount: UInt64 = 0
  package var level: UInt8 = 0
  package var tagShift: UInt8 = 0
  package var split: UInt64 = 0
  package var bucketCount: UInt64 = 0
  package var overflowCount: UInt64 = 0
  /// A random number that is part of every page's checksum.
  package var salt: UInt64 = 0
  package var segments: [Segment] = []
  /// The keyspaces that contain live records; nil when the records were not counted.
  package var keyspaces: [Keyspace]? = []
  /// Checksums of the buckets' pages, then of the overflow buckets' pages.
  package var pageChecksums: [UInt32] = []

  package init(storeID: StoreIdentifier) {
    self.storeID = storeID
  }

  package var bucketPageCount: Int { Self.pages(bucketCount) }
  package var overflowPageCount: Int { Self.pages(overflowCount) }

  static func pages(_ buckets: UInt64) -> Int {
    (Int(clamping: buckets) * 64 + pageBytes - 1) / pageBytes
  }

  /// Length of the head, and offset of the first page: a multiple of 4096.
  package var lengthBytes: Int {
    let used =
      Self.fixedLength + segments.count * Self.segmentLength
      + (keyspaces?.count ?? 0) * Self.keyspaceLength + pageChecksums.count * 4 + 4
    return (used + 4095) & ~4095
  }

  /// Offset of the overflow buckets' pages.
  package var overflowOffset: Int { lengthBytes + bucketPageCount * Self.pageBytes }

  /// Length of the whole file.
  package var fileLengthBytes: Int { overflowOffset + overflowPageCount * Self.pageBytes }

  /// Returns the checksum of a page.
  ///
  /// - Parameter number: the page's number, counted through both parts.
  package func checksum(ofPage number: Int, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var checksum = Checksum()
    checksum.update(salt)
    checksum.update(UInt64(number))
    checksum.update(bytes)
    return checksum.value
  }
}
