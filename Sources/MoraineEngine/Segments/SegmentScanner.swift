import MoraineFormat

/// Goes through the records of a segment in order, until the first place that holds none.
struct SegmentScanner {
  /// One valid record and where it is.
  struct Record {
    let offset: Int
    let reference: RecordReference
  }

  enum Step {
    case record(Record)
    /// Nothing valid here; why.
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

  /// - Throws: `.newerFormat` for a sound record with something unknown; `.io`.
  mutating func next() throws(StoreError) -> Step {
    let remaining = source.length - offset
    if remaining == 0 { return .end }
    guard remaining >= RecordHeader.fixedLength else {
      return .stop(reason: "\(remaining) bytes, too few for a record")
    }
    var start = try source.bytes(at: offset, count: RecordHeader.fixedLength)
    let length = RecordHeader.length(at: start)
    if length == 0 { return .stop(reason: "nothing is written here") }
    guard length >= RecordHeader.fixedLength, length <= min(remaining, Limits.recordLengthBytes)
    else { return .stop(reason: "a record has the impossible length \(length)") }
    let padded = min(aligned(length), remaining)
    start = try source.bytes(at: offset, count: padded)
    let checksum = RecordHeader.checksum(of: start, length: length, at: UInt64(offset), seed: seed)
    guard checksum == RecordHeader.storedChecksum(at: start) else {
      return .stop(reason: "a record's checksum does not match")
    }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw StoreError(
        FormatError(newer: "a record uses something unknown", at: UInt64(offset)), file: name)
    }
    for place in length..<padded where start.load(fromByteOffset: place, as: UInt8.self) != 0 {
      return .stop(reason: "the padding behind a record is not zero")
    }
    let record = Record(offset: offset, reference: RecordReference(base: start, header: header))
    offset += padded
    return .record(record)
  }

  /// The farthest promise of any valid sync mark at or behind a place.
  ///
  /// Only sync marks are looked for: they are short, so the search costs O(bytes), and a value
  /// cannot hold a valid one, because it cannot foretell the segment's salt.
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

  /// Whether the log ends with a footer before a place: one who comes later has not passed it.
  func hasFooter(before end: Int) throws(StoreError) -> Bool { try footer(before: end) != nil }

  /// The footer that ends at a place, and the sequence number of its record.
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

  /// Where the last byte lies that is not zero, at or behind a place; for the report.
  func lastWritten(from start: Int) throws(StoreError) -> Int {
    var last = start
    for place in start..<source.length
    where try source.bytes(at: place, count: 1).load(as: UInt8.self) != 0 {
      last = place + 1
    }
    return last
  }
}

/// Runs a decoder, with its errors told as the store's.
func formatting<Result>(
  _ file: String, _ body: () throws(FormatError) -> Result
) throws(StoreError) -> Result {
  do throws(FormatError) { return try body() } catch { throw StoreError(error, file: file) }
}
