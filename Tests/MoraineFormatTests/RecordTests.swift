import Testing

@testable import MoraineFormat

@Suite("Records") struct RecordTests {
  private let header = SegmentHeader(
    storeID: StoreIdentifier(low: 1, high: 2), epoch: 3, number: SegmentNumber(rawValue: 4), salt: 5
  )

  @Test(arguments: [0, 1, 16, 65_536], [RecordKind.put, .delete])
  func roundTrip(keyLength: Int, kind: RecordKind) throws {
    var generator = SeededGenerator(seed: 8)
    let key = generator.bytes(keyLength)
    let values = kind == .put ? [0, 1, 5, 300].map { generator.bytes($0) } : [[]]
    let codecs: [RecordCodec] = kind == .put ? [.raw, .lz4, .lz4Dictionary] : [.raw]
    for stored in values {
      for codec in codecs {
        for batch in [BatchRole.alone, .more, .end] {
          for keyspace in [0, 1, 0xFF00, 0xFFFF] as [UInt16] {
            let sequence = generator.next() >> 8
            var segment = SegmentSketch(header)
            let offset = segment.append(kind, sequence: sequence, key: key, stored: stored) {
              $0.codec = codec
              $0.batch = batch
              $0.keyspace = keyspace
              $0.rawLength = codec == .raw ? 0 : stored.count + 7
              $0.batchCount = batch == .end ? 0x0102_0304 : 0
            }
            let record = try #require(segment.record(at: offset))
            #expect(record.kind == kind && record.codec == codec && record.batch == batch)
            #expect(record.sequence == sequence && record.keyspace == keyspace)
            #expect(record.rawLength == (codec == .raw ? stored.count : stored.count + 7))
            #expect(record.batchCount == (batch == .end ? 0x0102_0304 : 0))
            #expect(aligned(record.length) == segment.bytes.count - offset)
            let foundKey = segment.key(of: record, at: offset)
            let foundValue = segment.stored(of: record, at: offset)
            #expect(foundKey == key && foundValue == stored)
          }
        }
      }
    }
  }

  /// Ranges and look-ups read most records of named keyspaces by a shorter way.
  @Test func putOfANamedKeyspaceIsReadByTheShorterWayAsByTheGeneralOne() throws {
    var generator = SeededGenerator(seed: 3)
    var readByBoth = 0
    for round in 0..<200_000 {
      let length = 24 + Int(generator.next() % 60)
      var bytes = generator.bytes(length)
      // Fields that are likely to make sense: puts, one flag, short keys and raw lengths.
      if generator.next() % 8 != 0 { bytes[15] = bytes[15] & 0xF0 | RecordKind.put.rawValue }
      if generator.next() % 8 != 0 { bytes[16] = RecordHeader.Flag.keyspace }
      (bytes[17], bytes[18], bytes[19]) = (bytes[17] % 64, 0, 0)
      if generator.next() % 2 == 0 { (bytes[21], bytes[22], bytes[23]) = (0, 0, 0) }
      try bytes.withUnsafeBytes { buffer in
        let base = try #require(buffer.baseAddress)
        guard let short = RecordHeader.parseNamedPut(base, length: length) else { return }
        let general = RecordHeader.parseAnyFields(base, length: length)
        #expect("\(short)" == general.map { "\($0)" }, "round \(round)")
        readByBoth += 1
      }
    }
    #expect(readByBoth > 5_000, "the shorter way was hardly taken")
  }

  /// Regression: no test named the bytes of an expiry, so that an encoder and a decoder that had
  /// changed alike would have passed all tests, and entries of existing stores would have expired.
  @Test func expiryHasItsPlaceAndItsBytesInARecord() throws {
    var segment = SegmentSketch(header)
    // 2100-01-01, and a time of which each byte is another one.
    let alone = segment.append(.put, sequence: 7, key: [0x6B], stored: [0x76]) {
      $0.expiryMilliseconds = 4_102_444_800_000
    }
    let last = segment.append(.put, sequence: 8, key: [0x6B], stored: [0x76]) {
      $0.expiryMilliseconds = 0x1112_1314_1516_1718
      $0.codec = .lz4
      $0.rawLength = 0x0121
      $0.batch = .end
      $0.batchCount = 0x0112_2334
      $0.keyspace = 0x4142
    }
    let expected: [(offset: Int, expiry: UInt64, fields: [UInt8])] = [
      (
        alone, 4_102_444_800_000,
        [
          0x07, 0, 0, 0, 0, 0, 0, 0x01,  // sequence, kind
          0x02, 0x01, 0, 0,  // flags, length of the key
          0x00, 0xD8, 0xC3, 0x2C, 0xBB, 0x03, 0, 0,  // expiry
          0x6B, 0x76,
        ]
      ),
      (
        last, 0x1112_1314_1516_1718,
        [
          0x08, 0, 0, 0, 0, 0, 0, 0x91,  // sequence, kind
          0x03, 0x01, 0, 0,  // flags, length of the key
          0x21, 0x01, 0, 0,  // length of the decompressed value
          0x34, 0x23, 0x12, 0x01,  // count of the batch
          0x42, 0x41,  // keyspace
          0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // expiry
          0x6B, 0x76,
        ]
      ),
    ]
    for (offset, expiry, fields) in expected {
      let record = try #require(segment.record(at: offset))
      #expect(Array(segment.bytes[offset + 8..<offset + record.length]) == fields)
      let found = segment.bytes.withUnsafeBytes {
        record.expiryMilliseconds(at: $0.baseAddress! + offset)
      }
      #expect(found == expiry)
    }
  }

  @Test func marksAndFootersAreRecords() throws {
    let digest = StateDigest(low: 11, high: 12)
    let mark = SyncMark(durableOffset: 128, wallMilliseconds: 9, digest: digest)
    let footer = SegmentFooter(
      recordCount: 1, firstSequence: .max, lastSequence: .max, wallMilliseconds: 9, digest: digest)
    var segment = SegmentSketch(header)
    let markAt = segment.append(.syncMark, sequence: 7, stored: mark.encoded())
    let footerAt = segment.append(.footer, sequence: 7, stored: footer.encoded())
    let markRecord = try #require(segment.record(at: markAt))
    let footerRecord = try #require(segment.record(at: footerAt))
    #expect(markRecord.kind == .syncMark && markRecord.length == 52)
    #expect(footerRecord.kind == .footer && footerRecord.length == 84)
    let readMark = try segment.stored(of: markRecord, at: markAt).withUnsafeBytes {
      try SyncMark(decoding: $0)
    }
    let readFooter = try segment.stored(of: footerRecord, at: footerAt).withUnsafeBytes {
      try SegmentFooter(decoding: $0)
    }
    #expect(readMark == mark)
    #expect(readFooter == footer)
    for kind in [RecordKind.syncMark, .footer] {
      let offset = segment.append(kind, sequence: 7, stored: [1, 2, 3])
      #expect(segment.record(at: offset) == nil)
    }
  }

  @Test func noDamageIsTakenForARecord() throws {
    var segment = SegmentSketch(header)
    let offset = segment.append(.put, sequence: 7, key: [1, 2, 3], stored: Array(0..<40)) {
      $0.codec = .lz4
      $0.rawLength = 99
      $0.batch = .end
      $0.batchCount = 2
      $0.keyspace = 5
    }
    let record = try #require(segment.record(at: offset))
    let bytes = segment.bytes + [UInt8](repeating: 0, count: 400)
    let seed = header.checksumSeed
    forEachFlip(of: bytes, in: offset..<offset + record.length) { damaged, place in
      let found = SegmentSketch.record(in: damaged, at: offset, seed: seed)
      #expect(found == nil, "byte \(place - offset)")
    }
  }

  @Test func zerosAreNeverARecord() {
    for length in [20, 21, 24, 52, 84, 300] {
      let zeros = [UInt8](repeating: 0, count: length)
      zeros.withUnsafeBytes { buffer in
        #expect(RecordHeader.length(at: buffer.baseAddress!) == 0)
        #expect(RecordHeader.parse(buffer.baseAddress!, length: length) == nil)
      }
    }
  }

  @Test func recordIsInvalidAtAnyOtherOffset() throws {
    var segment = SegmentSketch(header)
    let offset = segment.append(.put, sequence: 7, key: [1], stored: [2])
    let bytes = segment.bytes
    func isFound(
      at place: Int = offset, _ change: (inout SegmentHeader) -> Void = { _ in }
    ) -> Bool {
      var other = header
      change(&other)
      let seed = other.checksumSeed
      return SegmentSketch.record(in: bytes, at: offset, place: UInt64(place), seed: seed) != nil
    }
    #expect(isFound())
    #expect(!isFound(at: offset + 4))
    #expect(!isFound(at: offset + 1 << 32))
    #expect(!isFound { $0.number = SegmentNumber(rawValue: $0.number.rawValue + 1) })
    #expect(!isFound { $0.storeID = StoreIdentifier(low: 1, high: 3) })
    #expect(!isFound { $0.epoch += 1 })
    #expect(!isFound { $0.salt += 1 })
    #expect(isFound { $0.generation += 1 })
  }
}
