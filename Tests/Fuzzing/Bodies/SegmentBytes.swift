import MoraineFormat

/// The bytes of a segment file of a store that never existed, with methods that correct its
/// checksums.
struct SegmentBytes {
  static let number = SegmentNumber(rawValue: 1)
  static let storeID = StoreIdentifier(low: 1, high: 2)
  static let hashKey = HashKey(k0: 3, k1: 4)

  static let header: SegmentHeader = {
    var header = SegmentHeader(storeID: storeID, epoch: 1, number: number, salt: 5)
    header.generation = 1
    return header
  }()

  var bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Places the records after a sound header.
  init(records: [UInt8]) {
    bytes = Self.header.encoded() + records
  }

  /// Makes the header belong to the store, and corrects its checksum.
  mutating func mendHeader() {
    guard bytes.count >= SegmentHeader.fixedLength else { return }
    let sound = Self.header.encoded()
    // The magic, the identity of the store, and the number of the segment; not the lengths, the
    // flags and the bytes that must be zero.
    for range in [0..<10, 16..<56, 72..<80] { bytes.replaceSubrange(range, with: sound[range]) }
    mendHeaderChecksum()
  }

  /// Sets the flags of a segment that compaction wrote in the order of keys.
  mutating func setClustered() {
    guard bytes.count >= SegmentHeader.fixedLength else { return }
    bytes[96] |= 1
    bytes[98] |= 1
    mendHeaderChecksum()
  }

  mutating func mendHeaderChecksum() {
    guard bytes.count >= SegmentHeader.fixedLength else { return }
    let length = min(max(headerLength, SegmentHeader.fixedLength), bytes.count)
    var checksum = Checksum()
    bytes.withUnsafeBytes { raw in
      checksum.update(UnsafeRawBufferPointer(rebasing: raw[..<124]))
      checksum.update(UnsafeRawBufferPointer(rebasing: raw[SegmentHeader.fixedLength..<length]))
    }
    bytes.store(checksum.value, at: 124)
  }

  var headerLength: Int { Int(bytes.load(UInt32.self, at: 12)) }

  /// The seed of the records' checksums, when the header is sound.
  private var seed: Checksum? {
    do {
      return try bytes.withExactBytes { try SegmentHeader(decoding: $0) }.checksumSeed
    } catch {
      return nil
    }
  }

  /// Corrects the checksum of each record, as far as the lengths lead from one record to the next.
  mutating func mendRecords() {
    guard let seed else { return }
    var offset = headerLength
    while offset + RecordHeader.fixedLength <= bytes.count {
      let length = Int(bytes.load(UInt32.self, at: offset))
      guard length >= RecordHeader.fixedLength, length <= bytes.count - offset else { return }
      let checksum = bytes.withUnsafeBytes {
        RecordHeader.checksum(
          of: $0.baseAddress! + offset, length: length, at: UInt64(offset), seed: seed)
      }
      bytes.store(checksum, at: offset + 4)
      offset += aligned(length)
    }
  }

  /// Calls the body with each record, up to the first place that holds no record.
  func forEachRecord(_ body: (Int, RecordHeader, UnsafeRawPointer) throws -> Void) rethrows {
    guard let seed else { return }
    try bytes.withExactBytes { raw in
      guard let base = raw.baseAddress else { return }
      var offset = headerLength
      while offset + RecordHeader.fixedLength <= raw.count {
        let length = RecordHeader.length(at: base + offset)
        guard length >= RecordHeader.fixedLength, length <= raw.count - offset,
          RecordHeader.checksum(of: base + offset, length: length, at: UInt64(offset), seed: seed)
            == RecordHeader.storedChecksum(at: base + offset),
          let record = RecordHeader.parse(base + offset, length: length)
        else { return }
        try body(offset, record, base + offset)
        offset += aligned(length)
      }
    }
  }
}
