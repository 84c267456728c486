import MoraineFormat

/// What reading a segment's records needs of its header, found also where the header is damaged.
struct SegmentHead: Sendable {
  let seed: Checksum
  /// Where records begin; where they may begin, when the header is damaged.
  let firstOffset: Int
  /// Where it says that they begin, if that can be.
  let claimedOffset: Int?
  /// Nil where it is not known to be what was written.
  let dictionary: [UInt8]?
  let storeID: Identifier?
  let isWhole: Bool

  /// How many records in a row prove a seed: the first has made it, two agree with it.
  private static let proofLength = 3
  private static let places = stride(
    from: SegmentHeader.fixedLength, to: .max, by: recordAlignment)

  /// - Parameters:
  ///   - dictionaries: those of other segments: compaction hands one on.
  /// - Returns: nil when not even two records in a row are whole.
  /// - Throws: `.newerFormat`.
  init?(
    _ source: SalvageBytes, _ name: String, dictionaries: Set<[UInt8]>
  ) throws(StoreError) {
    let header = try source.bytes.withBytes { (bytes) throws(StoreError) -> SegmentHeader? in
      do throws(FormatError) {
        return try SegmentHeader(decoding: bytes)
      } catch {
        guard error.kind == .newer else { return nil }
        throw StoreError(error, file: name)
      }
    }
    if let header {
      guard !header.flags.contains(.encrypted) else {
        throw StoreError(.newerFormat, "an encrypted segment; update this program", file: name)
      }
      seed = header.checksumSeed
      firstOffset = header.headerLength
      claimedOffset = firstOffset
      dictionary = header.dictionary
      storeID = header.storeID
      isWhole = true
      return
    }
    guard let seed = Self.search(source.bytes) else { return nil }
    self.seed = seed
    firstOffset = SegmentHeader.fixedLength
    claimedOffset = source.bytes.withUnsafeBytes { bytes in
      do throws(FormatError) { return try SegmentHeader.claimedLength(bytes) } catch { return nil }
    }
    storeID = nil
    isWhole = false
    dictionary = dictionaries.first { source.bytes.dropFirst(128).starts(with: $0) }
  }

  /// A checksum begins with 32 bits that are the same for all records of a segment. Each record
  /// tells which, if it is whole; two that agree are no chance.
  private static func search(_ bytes: [UInt8]) -> Checksum? {
    bytes.withUnsafeBytes { bytes in
      for place in places {
        guard place + RecordHeader.fixedLength <= bytes.count else { return nil }
        if let seed = seed(bytes, at: place) { return seed }
      }
      return nil
    }
  }

  /// The seed that a chain of records from here on agrees about.
  private static func seed(_ bytes: UnsafeRawBufferPointer, at start: Int) -> Checksum? {
    guard let length = length(bytes, at: start), let second = next(bytes, start, length) else {
      return nil
    }
    let base = bytes.baseAddress!
    let seed = RecordHeader.seed(ofRecord: base + start, length: length, at: UInt64(start))
    var (place, count) = (second, 1)
    while count < proofLength, let length = Self.length(bytes, at: place) {
      let checksum = RecordHeader.checksum(
        of: base + place, length: length, at: UInt64(place), seed: seed)
      guard checksum == RecordHeader.storedChecksum(at: base + place) else { return nil }
      count += 1
      place += aligned(length)
    }
    // Two are enough when they are all there is behind a header.
    let isAll = bytes[min(place, bytes.count)...].allSatisfy { $0 == 0 }
    return count == proofLength || (count == 2 && isAll) ? seed : nil
  }

  private static func next(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ length: Int) -> Int? {
    let next = start + aligned(length)
    return Self.length(bytes, at: next) == nil ? nil : next
  }

  /// The length of what looks like a record.
  private static func length(_ bytes: UnsafeRawBufferPointer, at place: Int) -> Int? {
    guard place + RecordHeader.fixedLength <= bytes.count else { return nil }
    let length = RecordHeader.length(at: bytes.baseAddress! + place)
    guard length >= RecordHeader.fixedLength, length <= bytes.count - place,
      RecordHeader.parse(bytes.baseAddress! + place, length: length) != nil
    else { return nil }
    return length
  }
}
