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

  private var headerWithTrees: CheckpointHeader {
    var header = header
    header.trees = [3, 7].map { CheckpointHeader.Tree(keyspace: $0) }
    header.trees[1].height = 1
    header.trees[1].entryCount = 300
    header.nodeCount = 17
    header.keyspaces = [CheckpointHeader.Keyspace(id: 7, recordCount: 300, liveBytes: 0)]
    header.pageChecksums = [11, 12, 13]
    return header
  }

  @Test func encodedHeaderWithTreesIsDecoded() throws {
    let header = headerWithTrees
    #expect(header.encoded()[8] == 2)
    #expect(self.header.encoded()[8] == 1)
    #expect(try decode(header.encoded()) == header)
    #expect(header.fileLengthBytes == header.lengthBytes + 3 * 65_536)
  }

  @Test func treesThatNoLogHasAreDamaged() throws {
    let lies: [(inout CheckpointHeader) -> Void] = [
      { $0.trees[1].keyspace = 3 }, { $0.trees[1].root = 17 }, { $0.trees[1].height = 13 },
      { $0.trees[1].entryCount = 301 }, { $0.trees[1].entryCount = 0 }, { $0.nodeCount = 0 },
      { $0.trees[0].entryCount = 1 },
      { $0.nodeCount = 1 << 28 },
    ]
    for (number, lie) in lies.enumerated() {
      var header = headerWithTrees
      lie(&header)
      #expect(throws: FormatError.self, "lie \(number)") { try decode(header.encoded()) }
    }
  }

  /// A keyspace that became ordered later has its entries in the hash index of the checkpoint.
  @Test func checkpointHasTheTreesOfKeyspacesThatHadNoRecord() {
    let header = headerWithTrees
    #expect(header.hasTrees(of: [3, 7]))
    #expect(header.hasTrees(of: [3, 7, 9]))
    #expect(!header.hasTrees(of: [3]))
    #expect(!header.hasTrees(of: [0, 3, 7]), "the unnamed keyspace has four records")
    var uncounted = header
    uncounted.keyspaces = nil
    #expect(uncounted.hasTrees(of: [3, 7]))
    #expect(!uncounted.hasTrees(of: [3, 7, 9]))
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
    let error = error(changed { $0.put(UInt16(3), at: 8) })
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
