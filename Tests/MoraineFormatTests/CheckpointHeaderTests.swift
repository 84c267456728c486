import Testing

@testable import MoraineFormat

/// The header of an index checkpoint: a written header is read back, and nothing else is accepted.
@Suite struct CheckpointHeaderTests {
  private var header: CheckpointHeader {
    var header = CheckpointHeader(storeID: StoreIdentifier(low: 1, high: 2))
    header.lastSequence = 9
    header.level = 10
    header.tagShift = 10
    header.bucketCount = 1024
    header.keyCount = 4
    header.salt = 7
    header.pageChecksums = [11]
    var segment = CheckpointHeader.Segment(number: SegmentNumber(rawValue: 1))
    segment.endOffset = 4000
    segment.recordCount = 9
    segment.firstSequence = 1
    segment.lastSequence = 9
    header.segments = [segment]
    return header
  }

  private func decode(_ bytes: [UInt8]) throws -> CheckpointHeader {
    try bytes.withUnsafeBytes { try CheckpointHeader(decoding: $0) }
  }

  /// Returns the changed bytes with a corrected checksum.
  private func changed(_ change: (inout [UInt8]) -> Void) -> [UInt8] {
    var bytes = header.encoded()
    change(&bytes)
    bytes.put(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
    return bytes
  }

  private func error(_ bytes: [UInt8]) -> FormatError? {
    #expect(throws: FormatError.self) { try decode(bytes) }
  }

  @Test func encodedHeaderIsDecoded() throws {
    let bytes = header.encoded()
    #expect(bytes.count == header.lengthBytes)
    #expect(try decode(bytes) == header)
    #expect(try decode(changed { _ in }) == header)
  }

  @Test func everyFlippedByteIsNoticed() throws {
    let bytes = header.encoded()
    forEachFlip(of: bytes, in: 0..<300) { damaged, place in
      #expect(throws: FormatError.self, "byte \(place)") { try decode(damaged) }
    }
  }

  @Test func truncatedHeaderIsDamaged() {
    let bytes = header.encoded()
    for count in [0, 127] {
      let error = error(Array(bytes.prefix(count)))
      #expect(error?.offset == UInt64(count))
    }
    for count in [128, 4092, 4095] {
      let error = error(Array(bytes.prefix(count)))
      #expect(error?.kind == .damaged)
      #expect(error?.offset == UInt64(count))
    }
    #expect(error(bytes + [0])?.offset == 4097)
  }

  @Test func newerVersionIsReportedAsNewer() {
    let error = error(changed { $0.put(UInt16(2), at: 8) })
    #expect(error?.kind == .newer)
    #expect(error?.offset == 8)
  }

  /// Counts of segments and pages, for which memory would be allocated.
  @Test(arguments: [76, 104], [UInt32(1024), 5000, .max])
  func countsThatExceedTheFileAreDamaged(place: Int, count: UInt32) {
    let error = error(changed { $0.put(count, at: place) })
    #expect(error?.kind == .damaged)
    #expect(error?.offset == 76)
  }
}
