import MoraineFormat
import MoraineStorage
import SystemPackage

/// An iteration over the records of a segment in order, up to the first place without a valid
/// record.
struct SegmentScanner {
  /// One valid record and its offset.
  struct Record {
    let offset: Int
    let reference: RecordReference
  }

  enum Step {
    case record(Record)
    /// No valid record is here, and why.
    case stop(reason: String)
    /// The end of the bytes.
    case end
  }

  let source: ByteSource
  let name: String
  let seed: Checksum
  private(set) var offset: Int

  init(source: ByteSource, name: String, seed: Checksum, offset: Int) {
    self.source = source
    self.name = name
    self.seed = seed
    self.offset = offset
  }

  /// - Throws: `.newerFormat` for a sound record that uses something unknown; `.io`.
  mutating func next() throws(StoreError) -> Step {
    let remaining = source.length - offset
    if remaining == 0 { return .end }
    guard remaining >= RecordHeader.fixedLength else {
      return .stop(reason: "the last \(remaining) bytes are too few for a record")
    }
    var start = try source.bytes(at: offset, count: RecordHeader.fixedLength)
    let length = RecordHeader.length(at: start)
    if length == 0 { return .stop(reason: "no record is written here") }
    guard length >= RecordHeader.fixedLength,
      length <= min(remaining, StoreLimits.recordLengthBytes)
    else { return .stop(reason: "a record has the invalid length \(length)") }
    let padded = min(aligned(length), remaining)
    start = try source.bytes(at: offset, count: padded)
    let checksum = RecordHeader.checksum(of: start, length: length, at: UInt64(offset), seed: seed)
    guard checksum == RecordHeader.storedChecksum(at: start) else {
      return .stop(reason: "a record's checksum does not match")
    }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw StoreError(
        FormatError(newer: "a record uses an unknown feature", at: UInt64(offset)), file: name)
    }
    for place in length..<padded where start.load(fromByteOffset: place, as: UInt8.self) != 0 {
      return .stop(reason: "the padding after a record is not zero")
    }
    let record = Record(offset: offset, reference: RecordReference(base: start, header: header))
    offset += padded
    assert(offset <= source.length, "a record ends after the end of its bytes")
    return .record(record)
  }

  /// Returns the largest durable offset that any valid sync mark at or after a place promises.
  ///
  /// The search looks for sync marks only: they are short, so it costs O(bytes), and a value cannot
  /// contain a valid one, because its writer cannot predict the salt of the segment.
  func farthestPromise(from start: Int) throws(StoreError) -> UInt64 {
    var farthest: UInt64 = 0
    var place = aligned(start)
    while place + SyncMark.recordLength <= source.length {
      defer { place += recordAlignment }
      let base = try source.bytes(at: place, count: SyncMark.recordLength)
      guard RecordHeader.length(at: base) == SyncMark.recordLength,
        let header = RecordHeader.parse(base, length: SyncMark.recordLength),
        header.kind == .syncMark
      else { continue }
      let checksum = RecordHeader.checksum(
        of: base, length: header.length, at: UInt64(place), seed: seed)
      guard checksum == RecordHeader.storedChecksum(at: base) else { continue }
      let mark = try formatting(name) { () throws(FormatError) in
        try SyncMark(decoding: RecordReference(base: base, header: header).stored)
      }
      farthest = max(farthest, mark.durableOffset)
    }
    return farthest
  }

  /// Returns whether a footer ends at a place. A scanner that begins after the footer has not
  /// passed it.
  func hasFooter(before end: Int) throws(StoreError) -> Bool { try footer(before: end) != nil }

  /// Returns the footer that ends at a place, and the sequence number of its record.
  func footer(
    before end: Int
  ) throws(StoreError) -> (footer: SegmentFooter, sequence: UInt64)? {
    let place = end - SegmentFooter.recordLength
    guard place >= SegmentHeader.fixedLength, end <= source.length else { return nil }
    let base = try source.bytes(at: place, count: SegmentFooter.recordLength)
    guard RecordHeader.length(at: base) == SegmentFooter.recordLength,
      let header = RecordHeader.parse(base, length: SegmentFooter.recordLength),
      header.kind == .footer,
      RecordHeader.checksum(of: base, length: header.length, at: UInt64(place), seed: seed)
        == RecordHeader.storedChecksum(at: base)
    else { return nil }
    let footer = try formatting(name) { () throws(FormatError) in
      try SegmentFooter(decoding: RecordReference(base: base, header: header).stored)
    }
    return (footer, header.sequence)
  }

  /// Returns the end of the last byte that is not zero, at or after a place; for the report.
  func lastWritten(from start: Int) throws(StoreError) -> Int {
    var last = start
    for place in start..<source.length
    where try source.bytes(at: place, count: 1).load(as: UInt8.self) != 0 {
      last = place + 1
    }
    return last
  }
}

/// Functions that read the file of one segment.
enum SegmentFile {
  /// Returns the bytes of a segment file, up to a limit; nil when the file is missing.
  static func source(
    _ directory: any StorageDirectory, _ name: String, limit: Int?
  ) throws(StoreError) -> ByteSource? {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { return nil }
    let actual = Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
    return ByteSource(file: file, name: name, length: min(actual, limit ?? actual), mapping: nil)
  }

  static func header(_ source: ByteSource, _ name: String) throws(StoreError) -> SegmentHeader {
    let first = min(source.length, SegmentHeader.fixedLength)
    let start = UnsafeRawBufferPointer(start: try source.bytes(at: 0, count: first), count: first)
    let claim = try formatting(name) { () throws(FormatError) in
      try SegmentHeader.claimedLength(start)
    }
    let count = min(claim, source.length)
    let bytes = UnsafeRawBufferPointer(start: try source.bytes(at: 0, count: count), count: count)
    return try formatting(name) { () throws(FormatError) in try SegmentHeader(decoding: bytes) }
  }

  /// Maps a file. Returns nil when the kernel has no more mappings; reads then use the file.
  static func map(
    _ file: any StorageFile, _ length: Int, _ access: FileAccess = .read
  ) throws(StoreError) -> (any FileMapping)? {
    do throws(StorageError) {
      return try file.map(lengthBytes: length, access)
    } catch {
      if error.errno == .noMemory || error.isUnsupported { return nil }
      throw StoreError(error)
    }
  }
}

/// Runs a decoder, and converts its errors to errors of the store.
func formatting<Result>(
  _ file: String, _ body: () throws(FormatError) -> Result
) throws(StoreError) -> Result {
  do throws(FormatError) { return try body() } catch { throw StoreError(error, file: file) }
}
