import MoraineArchive
import MoraineFormat
import Testing

/// Random values of each type of the archive's format. The same seed gives the same values.
struct FormatSamples {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// SplitMix64.
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    return StateDigest.mix(state)
  }

  mutating func number(_ range: ClosedRange<UInt64>) -> UInt64 {
    let width = range.upperBound - range.lowerBound
    return range.lowerBound + (width == .max ? next() : next() % (width + 1))
  }

  /// Returns a small or a very large number of a range.
  mutating func anyNumber(_ range: ClosedRange<UInt64>) -> UInt64 {
    switch number(0...3) {
    case 0: range.lowerBound
    case 1: range.upperBound
    default: number(range)
    }
  }

  mutating func isTrue() -> Bool { next() % 2 == 0 }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }

  /// Returns bytes that LZ4 can compress.
  mutating func text(_ count: Int) -> [UInt8] {
    let words = (0..<20).map { _ in "word\(next() % 1000) " }
    var result: [UInt8] = []
    while result.count < count { result += Array(words[Int(next() % 20)].utf8) }
    return Array(result.prefix(count))
  }

  mutating func identifier() -> StoreIdentifier {
    StoreIdentifier(low: next(), high: next())
  }

  mutating func nonce() -> Nonce { Nonce(low: next(), high: next() | 1) }
  mutating func digest() -> StateDigest { StateDigest(low: next(), high: next()) }
  mutating func name() -> String {
    let letters = ["a", "Z", "0", "-", "/", "ß", "語", "🪨", " "]
    return (0..<number(0...40)).map { _ in letters[Int(next() % 9)] }.joined()
  }
}

extension FormatSamples {
  mutating func dataName(term: UInt64 = ArchiveLimits.term) -> DataObjectName {
    DataObjectName(term: number(1...term), nonce: nonce())
  }

  mutating func reference(term: UInt64) -> ContentsReference {
    ContentsReference(
      name: dataName(term: term), byteCount: number(1...1 << 40),
      checksum: UInt32(truncatingIfNeeded: next()))
  }

  mutating func identity() -> ArchiveIdentity {
    ArchiveIdentity(archiveID: identifier(), storeID: identifier(), createdMilliseconds: next())
  }

  mutating func term() -> TermRecord {
    TermRecord(
      archiveID: identifier(), term: anyNumber(1...ArchiveLimits.term), nonce: nonce(),
      createdMilliseconds: next(), instanceID: identifier(), writer: name())
  }

  mutating func hint() -> HeadHint {
    HeadHint(
      archiveID: identifier(), term: anyNumber(0...ArchiveLimits.term),
      checkpoint: anyNumber(0...ArchiveLimits.checkpoint),
      position: anyNumber(0...ArchiveLimits.position))
  }

  mutating func checkpoint() -> CheckpointRecord {
    let term = anyNumber(1...ArchiveLimits.term)
    return CheckpointRecord(
      archiveID: identifier(), number: anyNumber(1...ArchiveLimits.checkpoint),
      position: anyNumber(1...ArchiveLimits.position), term: term, commitNonce: nonce(),
      epoch: anyNumber(1...StoreLimits.manifestCounter),
      sequence: SequenceNumber(rawValue: anyNumber(0...SequenceNumber.max.rawValue)),
      digest: digest(), liveCount: next(), milliseconds: next(), contents: reference(term: term))
  }

  mutating func contents(segments count: Int? = nil) -> CheckpointContents {
    var manifest = Manifest(
      storeID: identifier(), instanceID: identifier(), hashKey: HashKey(k0: next(), k1: next()))
    manifest.epoch = number(3...100)
    manifest.lastSequence = SequenceNumber(rawValue: 1000)
    manifest.nextSegmentNumber = 10_000
    var segments: [CheckpointContents.Segment] = []
    for index in 0..<(count ?? Int(number(0...5))) {
      var entry = Manifest.Segment(
        number: SegmentNumber(rawValue: UInt64(1 + index * 7)), epoch: number(1...3))
      entry.lengthBytes = number(128...StoreLimits.segmentLengthBytes)
      entry.flags = isTrue() ? .sealed : [.sealed, .cut]
      manifest.segments.append(entry)
      segments.append(
        CheckpointContents.Segment(
          number: entry.number, epoch: entry.epoch, salt: next(), lengthBytes: entry.lengthBytes,
          object: dataName(), objectByteCount: number(1...1 << 40)))
    }
    return CheckpointContents(
      archiveID: identifier(), segments: segments, manifest: manifest.encoded())
  }
}

extension FormatSamples {
  mutating func place(epoch: UInt64) -> LogPlace {
    LogPlace(
      segment: SegmentNumber(rawValue: anyNumber(1...StoreLimits.manifestCounter)),
      epoch: number(1...epoch), salt: next(),
      offset: anyNumber(1...StoreLimits.segmentLengthBytes))
  }

  /// Returns a header without pieces, and so without a payload.
  mutating func header(_ kind: CommitHeader.Kind) -> CommitHeader {
    let position = kind == .fence ? anyNumber(1...ArchiveLimits.position) : number(2...1 << 40)
    let first = number(1...1 << 50)
    let hasOperations = kind == .fence || kind == .tail || kind == .gap
    var header = CommitHeader(
      kind, archiveID: identifier(), position: position, term: anyNumber(1...ArchiveLimits.term),
      nonce: nonce(), previousNonce: position == 1 ? .zero : nonce(),
      epoch: anyNumber(1...StoreLimits.manifestCounter),
      firstSequence: SequenceNumber(rawValue: first),
      lastSequence: SequenceNumber(rawValue: first - 1 + (hasOperations ? number(0...1000) : 0)))
    header.endsAtCut = !kind.hasPieces || isTrue()
    if header.endsAtCut { (header.digest, header.liveCount) = (digest(), next()) }
    header.milliseconds = next()
    if kind == .fence {
      let base = number(0...(position - 1))
      if base == 0 {
        header.firstSequence = SequenceNumber(rawValue: 1)
      } else {
        header.base = CommitHeader.Base(
          position: base, sequence: SequenceNumber(rawValue: first - 1), digest: digest())
      }
      if isTrue() { header.instanceID = identifier() }
    }
    if isTrue() { header.logEnd = place(epoch: header.epoch) }
    if kind == .gap { header.contents = reference(term: header.term) }
    header.keyspaces = (0..<number(0...3)).map { index in
      let id = UInt16(index * 100)
      return CommitHeader.Keyspace(
        id: id, isOrdered: isTrue(), name: id == 0 ? "" : "\(index)" + name())
    }
    return header
  }

  /// Returns a commit, with pieces where its kind has any.
  mutating func commit(
    _ kind: CommitHeader.Kind, pieces: Int? = nil
  ) -> (header: CommitHeader, rawBytes: [UInt8]) {
    var header = header(kind)
    var raw: [UInt8] = []
    for index in 0..<(kind.hasPieces ? pieces ?? Int(number(0...4)) : 0) {
      let bytes = text(Int(number(1...3000)))
      header.pieces.append(
        CommitHeader.Piece(
          segment: SegmentNumber(rawValue: UInt64(index * 3 + 1)),
          epoch: number(1...header.epoch), salt: next(),
          from: number(0...StoreLimits.segmentLengthBytes - 3000), length: UInt32(bytes.count)))
      raw += bytes
    }
    if !header.pieces.isEmpty {
      let index = Int(number(0...UInt64(header.pieces.count - 1)))
      header.logEnd = header.pieces[index].end
    }
    return (header, raw)
  }
}

/// Checks that the tests of the archive's format have in common.
enum FormatChecks {
  /// Returns the error of a call; nil when it throws none.
  static func error(of call: () throws -> Void) throws -> FormatError? {
    do {
      try call()
      return nil
    } catch let error as FormatError {
      return error
    }
  }

  /// Returns the bytes with the checksum of everything before it at their end.
  static func sealed(_ bytes: [UInt8]) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Array(bytes.dropLast(4)))
    writer.append(Checksum.of(writer.bytes))
    return writer.bytes
  }

  /// Calls the body with each single bit flipped.
  static func forEachFlip(
    of bytes: [UInt8], in range: Range<Int>? = nil,
    _ body: (_ damaged: [UInt8], _ place: Int) throws -> Void
  ) rethrows {
    var bytes = bytes
    for place in range ?? bytes.indices {
      for bit in 0..<8 {
        bytes[place] ^= 1 << bit
        try body(bytes, place)
        bytes[place] ^= 1 << bit
      }
    }
  }

  /// Checks that damage of an object is found: every flipped bit, every truncation, more bytes.
  static func expectDamageIsFound(
    _ bytes: [UInt8], _ what: String, decode: ([UInt8]) throws -> Void
  ) throws {
    try forEachFlip(of: bytes) { damaged, place in
      let error = try error { try decode(damaged) }
      #expect(error?.kind == .damaged, "\(what): a bit of byte \(place)")
    }
    for length in bytes.indices {
      let error = try error { try decode(Array(bytes[..<length])) }
      #expect(error?.kind == .damaged, "\(what): \(length) of \(bytes.count) bytes")
    }
    for more in [[0], [0xFF], Array(repeating: 0, count: 64)] as [[UInt8]] {
      let error = try error { try decode(bytes + more) }
      #expect(error?.kind == .damaged, "\(what): \(more.count) more bytes")
    }
  }
}

extension [UInt8] {
  /// Stores an integer in the byte order of the format.
  mutating func store(_ integer: some FixedWidthInteger, at offset: Int) {
    Swift.withUnsafeBytes(of: integer.littleEndian) { raw in
      for (index, byte) in raw.enumerated() { self[offset + index] = byte }
    }
  }
}
