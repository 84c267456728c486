import MoraineFormat
import Testing

/// Records that our own writer does not make, laid out by hand from the page on the format.
@Suite("Records of other writers") struct ForgedRecordTests {
  private func parse(
    kind: UInt8 = 1, flags: UInt8 = 0, keyLength: UInt32 = 0, rest: [UInt8] = []
  ) -> RecordHeader? {
    var writer = ByteWriter()
    writer.append(UInt32(20 + rest.count))
    writer.append(UInt32(0))
    writer.append(UInt64(9) | UInt64(kind) << 56)
    writer.append(UInt32(flags) | keyLength << 8)
    writer.append(contentsOf: rest)
    return writer.bytes.withUnsafeBytes {
      RecordHeader.parse($0.baseAddress!, length: $0.count)
    }
  }

  @Test func reservedFieldsAreSkipped() throws {
    // raw length, batch count, keyspace, expiry, previous, extension of 3, key, value
    var writer = ByteWriter()
    writer.append(UInt32(30))
    writer.append(UInt32(2))
    writer.append(UInt16(0xABCD))
    writer.append(UInt64.max)
    writer.append(UInt64.max)
    writer.append(UInt16(3))
    writer.append(contentsOf: [0xEE, 0xEE, 0xEE, UInt8(ascii: "k"), 1, 2])
    let record = try #require(
      parse(kind: 0b1001_0001, flags: 0b0001_1111, keyLength: 1, rest: writer.bytes))
    #expect(record.sequence == 9 && record.keyspace == 0xABCD && record.batchCount == 2)
    #expect(record.rawLength == 30 && record.storedLength == 2)
    #expect(record.keyOffset == 51 && record.valueOffset == 52)
    #expect(
      parse(kind: 0b1001_0001, flags: 0b0011_1111, keyLength: 1, rest: writer.bytes) == nil)
    for count in 0..<31 {
      let cut = Array(writer.bytes[..<count])
      #expect(parse(kind: 0b1001_0001, flags: 0b0001_1111, rest: cut) == nil, "\(count) bytes")
    }
  }

  /// Only the fields exist: a length prefix that claims more is checked without its bytes.
  @Test(arguments: [0x11, 0x21] as [UInt8])
  func aCompressedValueIsNotLongerThanTheLongestValue(kind: UInt8) {
    var writer = ByteWriter()
    writer.append(UInt32.max)
    writer.append(UInt32(0))
    writer.append(UInt64(9) | UInt64(kind) << 56)
    writer.append(UInt32(0))
    writer.append(UInt32(1 << 30))
    let bytes = writer.bytes
    bytes.withUnsafeBytes {
      let longest = 24 + StoreLimits.valueLengthBytes
      #expect(RecordHeader.parse($0.baseAddress!, length: longest) != nil)
      for length in [longest + 1, 1 << 31, 3 << 30, Int(UInt32.max)] {
        #expect(RecordHeader.parse($0.baseAddress!, length: length) == nil, "\(length)")
      }
    }
  }

  /// The library uses signed 32-bit lengths.
  @Test func inputOf2GiBDoesNotDecompress() {
    let bytes = [UInt8](repeating: 0, count: 16)
    bytes.withUnsafeBytes { bytes in
      let tooLong = UnsafeRawBufferPointer(start: bytes.baseAddress, count: 1 << 31)
      var target: [UInt8] = [0]
      target.withUnsafeMutableBytes {
        #expect(!Decompressor.decompress(tooLong, into: $0))
        #expect(!Decompressor.decompress(tooLong, into: $0, dictionary: bytes))
      }
    }
  }

  @Test func unknownBitsAreRefused() {
    #expect(parse() != nil)
    #expect(parse(flags: 0b0000_1000) != nil)
    for flags in [0b0010_0000, 0b0100_0000, 0b1000_0000] as [UInt8] {
      #expect(parse(flags: flags) == nil)
    }
    for kind in Array(5...15) + [0] as [UInt8] { #expect(parse(kind: kind) == nil) }
    #expect(parse(kind: 0b0011_0001, rest: [0, 0, 0, 0]) == nil)
    #expect(parse(kind: 0b1100_0001, rest: [0, 0, 0, 0]) == nil)
  }

  @Test func lengthsMustFit() {
    #expect(parse(keyLength: 1) == nil)
    #expect(parse(keyLength: 3, rest: [1, 2, 3]) != nil)
    #expect(parse(keyLength: 4, rest: [1, 2, 3]) == nil)
    let long = [UInt8](repeating: 0, count: 65_537)
    #expect(parse(keyLength: 65_536, rest: long) != nil)
    #expect(parse(keyLength: 65_537, rest: long) == nil)
  }

  @Test func aRawLengthOutOfReachIsRefused() {
    func claim(_ rawLength: UInt32) -> RecordHeader? {
      var writer = ByteWriter()
      writer.append(rawLength)
      writer.append(contentsOf: [1, 2])
      return parse(kind: 0b0001_0001, rest: writer.bytes)
    }
    #expect(claim(255 * 2 + 64) != nil)
    #expect(claim(255 * 2 + 65) == nil)
    #expect(claim(.max) == nil)
  }

  @Test func deletesAreBareOfValues() {
    #expect(parse(kind: 2, keyLength: 1, rest: [1]) != nil)
    #expect(parse(kind: 2, keyLength: 1, rest: [1, 2]) == nil)
    #expect(parse(kind: 0b0001_0010, rest: [0, 0, 0, 0]) == nil)
  }

  @Test func marksAndFootersHoldOnlyTheirFixedValue() {
    let value = [UInt8](repeating: 0, count: 32)
    #expect(parse(kind: 3, rest: value) != nil)
    #expect(parse(kind: 3, keyLength: 1, rest: value) == nil)
    #expect(parse(kind: 3, flags: 8, rest: value) == nil)
    #expect(parse(kind: 0b0100_0011, rest: value) == nil)
    #expect(parse(kind: 4, rest: value) == nil)
    #expect(parse(kind: 4, rest: value + value) != nil)
    #expect(parse(kind: 3, rest: value + value) == nil)
  }
}
