import MoraineFormat
import Testing

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
