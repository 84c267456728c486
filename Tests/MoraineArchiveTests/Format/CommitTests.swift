import MoraineArchive
import MoraineFormat
import Testing

/// Commits: the history of an archive.
@Suite struct CommitTests {
  private let small = ContainerWriter(blockLength: 4096)

  private func header(_ bytes: [UInt8]) throws -> CommitHeader {
    try bytes.withUnsafeBytes { try CommitHeader(decoding: $0) }
  }

  /// Corrects the checksum of a header without payload.
  private func kind(decodingHeader bytes: [UInt8]) throws -> FormatError.Kind? {
    try FormatChecks.error { _ = try Commit(FormatChecks.sealed(bytes)) }?.kind
  }

  @Test(arguments: CommitHeader.Kind.allCases)
  func commitsAreReadAsTheyWereWritten(kind: CommitHeader.Kind) throws {
    for seed in 1...100 as ClosedRange<UInt64> {
      var samples = FormatSamples(seed: seed)
      let (header, raw) = samples.commit(kind)
      let bytes = Commit.encoded(header, rawBytes: raw, with: small)
      let commit = try Commit(bytes)
      var expected = header
      expected.payloadByteCount = commit.header.payloadByteCount
      #expect(commit.header == expected, "seed \(seed)")
      #expect(commit.rawBytes == raw, "seed \(seed)")
      #expect(commit.header.pieceRanges.last?.upperBound ?? 0 == raw.count, "seed \(seed)")
      let headerBytes = Array(bytes.prefix(commit.header.headerByteCount))
      #expect(commit.header.encoded() == headerBytes, "seed \(seed)")
      // The header alone is enough to know what the commit contains.
      #expect(try self.header(headerBytes) == expected, "seed \(seed)")
      #expect(
        bytes.count == headerBytes.count + Int(expected.payloadByteCount), "seed \(seed)")
    }
  }

  @Test(arguments: CommitHeader.Kind.allCases)
  func damagedCommitsAreRefused(kind: CommitHeader.Kind) throws {
    var samples = FormatSamples(seed: 17)
    let (header, raw) = samples.commit(kind, pieces: 2)
    let bytes = Commit.encoded(header, rawBytes: raw, with: small)
    try FormatChecks.expectDamageIsFound(bytes, "a commit") { _ = try Commit($0) }
  }

  @Test func newerVersionsKindsAndFlagsAreNewerAndNotDamaged() throws {
    var samples = FormatSamples(seed: 18)
    let original = samples.header(.beat).encoded()
    let changes: [(Int, UInt8)] = [
      (8, 2), (9, 1), (10, 0), (10, 6), (10, 0xFF), (11, 3), (11, 0x81),
    ]
    for (place, value) in changes {
      var bytes = original
      bytes[place] = value
      #expect(try FormatChecks.error { _ = try Commit(bytes) }?.kind == .damaged)
      #expect(try kind(decodingHeader: bytes) == .newer, "\(value) at \(place)")
    }
    var header = samples.header(.tail)
    header.keyspaces = [CommitHeader.Keyspace(id: 1, isOrdered: true, name: "a")]
    var bytes = header.encoded()
    bytes[CommitHeader.fixedLength + 4] = 2
    #expect(try kind(decodingHeader: bytes) == .newer)
  }

  /// A checksum is no proof of sense: any bytes may have the right one.
  @Test func forgedHeadersWithCorrectChecksumsGiveAValueOrAnError() throws {
    var random = FormatSamples(seed: 19)
    for seed in 1...300 as ClosedRange<UInt64> {
      var samples = FormatSamples(seed: seed)
      let kind = CommitHeader.Kind.allCases[Int(seed % 5)]
      let original = samples.header(kind).encoded()
      for _ in 0..<100 {
        var bytes = original
        for _ in 0..<random.number(1...3) {
          let place = Int(random.number(16...UInt64(bytes.count - 5)))
          bytes[place] = random.isTrue() ? 0xFF : UInt8(truncatingIfNeeded: random.next())
        }
        let sealed = FormatChecks.sealed(bytes)
        var decoded: Commit?
        let error = try FormatChecks.error { decoded = try Commit(sealed) }
        #expect((decoded == nil) != (error == nil), "seed \(seed)")
        if let decoded { #expect(decoded.header.encoded() == sealed, "seed \(seed)") }
      }
    }
  }

  @Test func forgedLengthsAreRefused() throws {
    var samples = FormatSamples(seed: 21)
    var header = samples.header(.tail)
    (header.keyspaces, header.contents) = ([], nil)
    let bytes = header.encoded()
    // The last four bytes before the checksum are the number of pieces.
    for count in [1, 65_537, .max] as [UInt32] {
      var forged = bytes
      forged.store(count, at: bytes.count - 8)
      #expect(try kind(decodingHeader: forged) == .damaged, "\(count) pieces")
    }
    for length in [0, 235, UInt32(bytes.count - 1), UInt32(bytes.count + 1), 1 << 25, .max] {
      var forged = bytes
      forged.store(length, at: 12)
      #expect(try kind(decodingHeader: forged) == .damaged, "\(length) bytes of header")
    }
    for length in [1, 1 << 40, .max] as [UInt64] {
      var forged = bytes
      forged.store(length, at: 216)
      #expect(try kind(decodingHeader: forged) == .damaged, "\(length) bytes of payload")
    }
  }

  @Test func sumsOfPiecesThatOverflowAreAViolation() {
    var samples = FormatSamples(seed: 22)
    var header = samples.header(.tail)
    header.payloadByteCount = 100
    header.pieces = (1...65_536).map {
      CommitHeader.Piece(
        segment: SegmentNumber(rawValue: $0), epoch: 1, salt: 0, from: 0, length: 1024)
    }
    header.logEnd = header.pieces[0].end
    #expect(header.violation == nil)
    #expect(header.rawByteCount == ArchiveLimits.payloadBytes)
    header.pieces[65_535].length += 1
    #expect(header.rawByteCount == nil)
    #expect(header.violation != nil)
    for index in header.pieces.indices { header.pieces[index].length = .max }
    #expect(header.rawByteCount == nil)
    header.pieces = [header.pieces[0]]
    header.pieces[0].length = 10
    header.pieces[0].from = .max - 5
    #expect(header.violation != nil)
    header.pieces[0].from = StoreLimits.segmentLengthBytes - 10
    header.logEnd = header.pieces[0].end
    #expect(header.violation == nil)
    header.pieces[0].from += 1
    #expect(header.violation != nil)
  }

  /// Changes of a sound header after which no writer could have made it.
  private static let contradictions: [(CommitHeader.Kind, @Sendable (inout CommitHeader) -> Void)] =
    [
      (.tail, { $0.position = 1 }),
      (.tail, { $0.position = ArchiveLimits.position + 1 }),
      (.beat, { $0.previousNonce = .zero }),
      (.beat, { $0.nonce = .zero }),
      (.beat, { $0.term = 0 }),
      (.beat, { $0.epoch = 0 }),
      (.beat, { $0.lastSequence = SequenceNumber(rawValue: $0.lastSequence.rawValue + 1) }),
      (.tail, { $0.firstSequence = SequenceNumber(rawValue: $0.lastSequence.rawValue + 2) }),
      (.tail, { $0.firstSequence = .none }),
      (.tail, { $0.base.sequence = SequenceNumber(rawValue: 1) }),
      (.close, { $0.instanceID = StoreIdentifier(low: 1, high: 1) }),
      (.fence, { $0.base.position = $0.position }),
      (.fence, { $0.base.sequence = $0.firstSequence }),
      (.fence, { $0.base.position = 0 }),
      (.gap, { $0.contents = nil }),
      (
        .gap,
        {
          $0.contents?.name = DataObjectName(term: $0.term, nonce: .zero); $0.term -= 1
        }
      ),
      (
        .gap,
        {
          $0.endsAtCut = false; $0.digest = StateDigest(); $0.liveCount = 0
        }
      ),
      (
        .tail,
        {
          $0.endsAtCut = false; $0.liveCount = 1
        }
      ),
      (.tail, { $0.payloadByteCount = 10 }),
      (.tail, { $0.keyspaces = [CommitHeader.Keyspace(id: 1, isOrdered: false, name: "")] }),
      (.tail, { $0.keyspaces = [CommitHeader.Keyspace(id: 0, isOrdered: true, name: "a")] }),
      (.tail, { $0.keyspaces = [CommitHeader.Keyspace(id: 0xFF00, isOrdered: false, name: "a")] }),
      (
        .tail,
        { header in
          header.keyspaces = [1, 2].map {
            CommitHeader.Keyspace(id: $0, isOrdered: false, name: "same")
          }
        }
      ),
      (
        .beat,
        {
          $0.payloadByteCount = 40
          $0.pieces = [
            CommitHeader.Piece(
              segment: SegmentNumber(rawValue: 1), epoch: 1, salt: 2, from: 0, length: 1)
          ]
        }
      ),
    ]

  @Test(arguments: contradictions.indices)
  func contradictingFieldsAreAViolation(index: Int) {
    let (kind, change) = Self.contradictions[index]
    var samples = FormatSamples(seed: UInt64(index))
    var header = samples.header(kind)
    header.term = 5
    header.contents?.name = samples.dataName(term: 5)
    if kind == .fence {
      (header.position, header.previousNonce) = (3, samples.nonce())
      header.firstSequence = SequenceNumber(rawValue: 8)
      header.base = CommitHeader.Base(
        position: 2, sequence: SequenceNumber(rawValue: 7), digest: samples.digest())
    }
    #expect(header.violation == nil)
    change(&header)
    #expect(header.violation != nil)
  }

  @Test func logMustEndWhereAPieceEnds() throws {
    for kind in [.fence, .tail] as [CommitHeader.Kind] {
      var samples = FormatSamples(seed: 28)
      var (header, _) = samples.commit(kind, pieces: 3)
      header.payloadByteCount = 100
      for piece in header.pieces {
        header.logEnd = piece.end
        #expect(header.violation == nil)
      }
      let end = try #require(header.logEnd)
      var others = [LogPlace?](repeating: end, count: 5)
      others[0]?.segment = SegmentNumber(rawValue: 2)
      others[1]?.epoch += 1
      others[2]?.salt ^= 1
      others[3]?.offset -= 1
      others[4] = nil
      for other in others {
        header.logEnd = other
        #expect(header.violation != nil, "\(String(describing: other))")
      }
    }
  }

  @Test func impossibleEndsOfTheLogAreRefused() throws {
    var samples = FormatSamples(seed: 29)
    var header = samples.header(.beat)
    header.logEnd = LogPlace(
      segment: SegmentNumber(rawValue: 3), epoch: header.epoch, salt: 0, offset: 200)
    let bytes = header.encoded()
    #expect(try self.header(bytes) == header)
    // One of four fields is zero or too large: such an end is neither a place nor absent.
    let changes: [(Int, UInt64)] = [
      (184, 0), (184, StoreLimits.manifestCounter + 1), (192, 0), (192, header.epoch + 1),
      (208, 0), (208, StoreLimits.segmentLengthBytes + 1),
    ]
    for (place, value) in changes {
      var forged = bytes
      forged.store(value, at: place)
      #expect(try kind(decodingHeader: forged) == .damaged, "\(value) at \(place)")
    }
    header.logEnd = nil
    #expect(Array(header.encoded()[184..<216]) == [UInt8](repeating: 0, count: 32))
    #expect(try self.header(header.encoded()) == header)
  }

  @Test func twoPiecesOfOneSegmentAreRefused() throws {
    var samples = FormatSamples(seed: 24)
    let (header, raw) = samples.commit(.tail, pieces: 2)
    let count = header.headerByteCount
    var bytes = Commit.encoded(header, rawBytes: raw, with: small)
    bytes.replaceSubrange(
      (count - 4 - 36)..<(count - 4 - 28), with: bytes[(count - 4 - 72)..<(count - 4 - 64)])
    bytes = FormatChecks.sealed(Array(bytes[..<count])) + bytes[count...]
    #expect(try FormatChecks.error { _ = try Commit(bytes) }?.kind == .damaged)
  }

  @Test func payloadWithAnotherRawLengthIsRefused() throws {
    var samples = FormatSamples(seed: 25)
    let (original, raw) = samples.commit(.tail, pieces: 2)
    for other in [raw + [1], Array(raw.dropLast())] {
      let payload = small.container(other)
      var header = original
      header.payloadByteCount = UInt64(payload.count)
      let error = try FormatChecks.error { _ = try Commit(header.encoded() + payload) }
      #expect(error?.kind == .damaged)
      #expect(error?.offset == UInt64(header.headerByteCount) + 16)
    }
  }

  @Test func errorsOfThePayloadNameTheOffsetInTheCommit() throws {
    var samples = FormatSamples(seed: 26)
    let (header, raw) = samples.commit(.fence, pieces: 1)
    var bytes = Commit.encoded(header, rawBytes: raw, with: small)
    bytes[bytes.count - 1] ^= 1
    let error = try FormatChecks.error { _ = try Commit(bytes) }
    // One block: the head of its container has 32 bytes.
    #expect(error?.offset == UInt64(header.headerByteCount + 32))
  }

  @Test func largestCommitIsReadBack() throws {
    var samples = FormatSamples(seed: 27)
    let bytes = samples.text(1 << 20)
    var raw: [UInt8] = []
    var header = samples.header(.tail)
    for number in 1...64 as ClosedRange<UInt64> {
      raw += bytes
      header.pieces.append(
        CommitHeader.Piece(
          segment: SegmentNumber(rawValue: number), epoch: 1, salt: 0, from: 0, length: 1 << 20))
      header.logEnd = header.pieces.last?.end
    }
    let commit = try Commit(Commit.encoded(header, rawBytes: raw))
    #expect(commit.rawBytes == raw)
  }
}
