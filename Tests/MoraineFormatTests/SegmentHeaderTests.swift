import MoraineFormat
import Testing

@Suite("Segment header") struct SegmentHeaderTests {
  private func header(dictionaryLength: Int = 0) -> SegmentHeader {
    var generator = SeededGenerator(seed: 4)
    var header = SegmentHeader(
      storeID: StoreIdentifier(low: generator.next(), high: generator.next()),
      epoch: generator.next(),
      number: SegmentNumber(rawValue: generator.next()), salt: generator.next())
    header.predecessor = SegmentHeader.Predecessor(
      number: generator.next(), lengthBytes: generator.next(),
      lastSequence: SequenceNumber(rawValue: generator.next() >> 8))
    header.generation = generator.next()
    header.createdMilliseconds = generator.next()
    header.encryptionKeyID = 0x0102_0304
    header.dictionary = generator.bytes(dictionaryLength)
    header.flags =
      dictionaryLength > 0 ? [.compacted, .encrypted, .hasDictionary] : [.received, .encrypted]
    return header
  }

  private func decode(_ bytes: [UInt8]) throws -> SegmentHeader {
    try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
  }

  private func kind(decoding bytes: [UInt8]) throws -> FormatError.Kind? {
    try errorKind { _ = try decode(bytes) }
  }

  /// Corrects the checksum of a changed header of 128 bytes.
  private func sealed(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    bytes.put(Checksum.of(Array(bytes[..<124])), at: 124)
    return bytes
  }

  @Test(arguments: [0, 1, 7, 8, 20, 65_535, 65_536]) func roundTrip(dictionaryLength: Int) throws {
    let header = header(dictionaryLength: dictionaryLength)
    let bytes = header.encoded()
    #expect(bytes.count == header.headerLength)
    #expect(bytes.count == 128 + (dictionaryLength + 7) / 8 * 8)
    #expect(try bytes.withUnsafeBytes { try SegmentHeader.claimedLength($0) } == bytes.count)
    #expect(try decode(bytes) == header)
    #expect(try decode(bytes + [1, 2, 3]) == header)
  }

  @Test(arguments: [0, 20]) func noDamageIsTakenForAHeader(dictionaryLength: Int) throws {
    let bytes = header(dictionaryLength: dictionaryLength).encoded()
    let behind = [UInt8](repeating: 0, count: 300)
    try forEachFlip(of: bytes + behind, in: bytes.indices) { damaged, place in
      let kind = try kind(decoding: damaged)
      #expect(kind == .damaged, "byte \(place)")
    }
    for length in bytes.indices {
      #expect(try kind(decoding: Array(bytes[..<length])) == .damaged, "\(length) bytes")
    }
  }

  @Test func zerosAreNoHeader() throws {
    #expect(try kind(decoding: [UInt8](repeating: 0, count: 256)) == .damaged)
  }

  @Test func newerIsNotDamaged() throws {
    var bytes = header().encoded()
    bytes.put(UInt16(2), at: 8)
    #expect(try kind(decoding: bytes) == .damaged)
    #expect(try kind(decoding: sealed(bytes)) == .newer)
    for place in [10, 11, 98, 99] + Array(108..<124) {
      var bytes = header().encoded()
      bytes[place] = 0x80
      #expect(try kind(decoding: sealed(bytes)) == .newer, "byte \(place)")
    }
  }

  @Test func unknownLowFlagsAreIgnored() throws {
    var bytes = header().encoded()
    bytes[97] = 0x80
    #expect(try decode(sealed(bytes)).number == header().number)
  }

  @Test func aFlagWithoutItsDictionaryIsRefused() throws {
    var bytes = header().encoded()
    bytes[96] |= UInt8(SegmentHeader.Flags.hasDictionary.rawValue)
    #expect(try kind(decoding: sealed(bytes)) == .damaged)
  }

  @Test func segmentsAreNamedByTheirNumber() {
    let names: [UInt64: String] = [
      1: "0000000001.segment", 9_999_999_999: "9999999999.segment",
      10_000_000_000: "10000000000.segment", .max: "18446744073709551615.segment",
    ]
    for (number, name) in names {
      #expect(SegmentNumber(rawValue: number).fileName == name)
      #expect(SegmentNumber(fileName: name)?.rawValue == number)
    }
    let others = [
      "", ".segment", "1.segment", "0000000000.segment", "+000000001.segment",
      "00000000001.segment", "0000000001.index", "0000000001.segment.tmp", "000000000x.segment",
      "18446744073709551616.segment", " 0000000001.segment", "0000000001.SEGMENT",
    ]
    for name in others { #expect(SegmentNumber(fileName: name) == nil, "\(name)") }
  }
}
