import MoraineFormat
import Testing

/// A copy of a record is the same operation: only fields that do not hold at the new place are left
/// out.
@Suite struct RecordCopyTests {
  private static let seed = SegmentHeader(
    storeID: StoreIdentifier(low: 1, high: 2), epoch: 1, number: SegmentNumber(rawValue: 9),
    salt: 77
  ).checksumSeed
  private static let expiry: UInt64 = 0x1112_1314_1516_1718

  /// Returns a record with the optional fields that the bits of `fields` select.
  private func record(fields: Int) -> [UInt8] {
    var optional = ByteWriter()
    let codec: UInt8 = fields & 1 == 0 ? 0 : 1
    let batch: UInt8 = fields & 2 == 0 ? 1 : 2
    let flags = UInt8(fields >> 2)
    if codec == 1 { optional.append(UInt32(70)) }
    if batch == 2 { optional.append(UInt32(3)) }
    if flags & 1 != 0 { optional.append(UInt16(0x0203)) }
    if flags & 2 != 0 { optional.append(Self.expiry) }
    if flags & 4 != 0 { optional.append(UInt64(0x2122_2324_2526_2728)) }
    if flags & 16 != 0 {
      optional.append(UInt16(3))
      optional.append(contentsOf: [9, 8, 7])
    }
    var writer = ByteWriter()
    let key = Array("key".utf8)
    let value = Array("value".utf8)
    writer.append(UInt32(20 + optional.bytes.count + key.count + value.count))
    writer.append(UInt32(0))
    writer.append(UInt64(5) | UInt64(1 | codec << 4 | batch << 6) << 56)
    writer.append(UInt32(flags) | UInt32(key.count) << 8)
    writer.append(contentsOf: optional.bytes)
    writer.append(contentsOf: key)
    writer.append(contentsOf: value)
    return writer.bytes
  }

  private func copy(_ bytes: [UInt8]) throws -> (header: RecordHeader, bytes: [UInt8]) {
    try bytes.withUnsafeBytes { raw in
      let base = try #require(raw.baseAddress)
      let header = try #require(RecordHeader.parse(base, length: raw.count))
      let copy = RecordCopy(base, header)
      var result = [UInt8](repeating: 0, count: copy.length)
      result.withUnsafeMutableBytes { copy.write(to: $0.baseAddress!, at: 640, seed: Self.seed) }
      let again = try result.withUnsafeBytes {
        try #require(RecordHeader.parse($0.baseAddress!, length: $0.count))
      }
      return (again, result)
    }
  }

  /// Every combination of optional fields: codec, batch end, and flags 0 to 4.
  @Test func everyFieldThatStillHoldsIsKept() throws {
    for fields in 0..<128 {
      let original = record(fields: fields)
      let header = try original.withUnsafeBytes {
        try #require(RecordHeader.parse($0.baseAddress!, length: $0.count))
      }
      let (copied, bytes) = try copy(original)
      #expect(copied.sequence == header.sequence && copied.kind == header.kind)
      #expect(copied.codec == header.codec && copied.rawLength == header.rawLength)
      #expect(copied.keyspace == header.keyspace)
      #expect(copied.batch == .alone)
      #expect(copied.flags == header.flags & ~RecordHeader.Flag.previous)
      let expiry = fields >> 2 & 2 == 0 ? nil : Self.expiry
      #expect(
        original.withUnsafeBytes { header.expiryMilliseconds(at: $0.baseAddress!) } == expiry)
      #expect(bytes.withUnsafeBytes { copied.expiryMilliseconds(at: $0.baseAddress!) } == expiry)
      #expect(bytes.suffix(8).elementsEqual("keyvalue".utf8), "\(fields)")
      if header.flags & RecordHeader.Flag.extension != 0 {
        #expect(bytes.dropLast(8).suffix(5).elementsEqual([3, 0, 9, 8, 7]))
      }
      let checksum = bytes.withUnsafeBytes {
        RecordHeader.checksum(of: $0.baseAddress!, length: $0.count, at: 640, seed: Self.seed)
      }
      #expect(
        bytes.withUnsafeBytes { RecordHeader.storedChecksum(at: $0.baseAddress!) } == checksum)
      #expect(try copy(bytes).bytes == bytes, "a copy of a copy is the same")
    }
  }
}
