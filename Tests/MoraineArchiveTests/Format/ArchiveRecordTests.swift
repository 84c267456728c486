import MoraineArchive
import MoraineFormat
import Testing

/// The small objects of an archive: identity, terms, checkpoints and their contents, hints.
@Suite struct ArchiveRecordTests {
  /// Calls the body with random values of each type.
  private func forEachSample(
    seeds: ClosedRange<UInt64>, _ body: (any ArchiveRecord, UInt64) throws -> Void
  ) throws {
    for seed in seeds {
      var samples = FormatSamples(seed: seed)
      try body(samples.identity(), seed)
      try body(samples.term(), seed)
      try body(samples.checkpoint(), seed)
      try body(samples.contents(), seed)
      try body(samples.hint(), seed)
    }
  }

  private func expectRoundTrip<Record: ArchiveRecord>(_ record: Record, _ seed: UInt64) throws {
    let bytes = record.encoded()
    let decoded = try Record(bytes)
    #expect(decoded == record, "seed \(seed)")
    #expect(decoded.encoded() == bytes, "seed \(seed)")
  }

  private func kind<Record: ArchiveRecord>(
    decoding bytes: [UInt8], as type: Record.Type
  ) throws -> FormatError.Kind? {
    try FormatChecks.error { _ = try Record(bytes) }?.kind
  }

  @Test func recordsAreReadAsTheyWereWritten() throws {
    try forEachSample(seeds: 1...200) { try expectRoundTrip($0, $1) }
  }

  @Test func damagedRecordsAreRefused() throws {
    func check<Record: ArchiveRecord>(_ record: Record) throws {
      try FormatChecks.expectDamageIsFound(record.encoded(), Record.title) {
        _ = try Record($0)
      }
    }
    try forEachSample(seeds: 7...8) { record, _ in try check(record) }
  }

  @Test func recordsOfAnotherTypeAreRefused() throws {
    var samples = FormatSamples(seed: 3)
    #expect(try kind(decoding: samples.identity().encoded(), as: TermRecord.self) == .damaged)
    #expect(try kind(decoding: samples.hint().encoded(), as: ArchiveIdentity.self) == .damaged)
  }

  @Test func newerVersionsAndFlagsAreNewerAndNotDamaged() throws {
    func check<Record: ArchiveRecord>(_ record: Record) throws {
      for (place, value) in [(8, 2), (9, 1), (10, 1), (11, 0x80)] as [(Int, UInt8)] {
        var bytes = record.encoded()
        bytes[place] = value
        #expect(try kind(decoding: bytes, as: Record.self) == .damaged, "byte \(place)")
        let sealed = FormatChecks.sealed(bytes)
        #expect(try kind(decoding: sealed, as: Record.self) == .newer, "byte \(place)")
      }
    }
    try forEachSample(seeds: 5...5) { record, _ in try check(record) }
  }

  @Test func unknownEncryptionIsNewer() throws {
    var samples = FormatSamples(seed: 4)
    for place in 52..<60 {
      var bytes = samples.identity().encoded()
      bytes[place] = 1
      let sealed = FormatChecks.sealed(bytes)
      #expect(try kind(decoding: sealed, as: ArchiveIdentity.self) == .newer, "byte \(place)")
    }
  }

  /// A checksum is no proof of sense: any bytes may have the right one.
  @Test func forgedBytesWithCorrectChecksumsGiveAValueOrAnError() throws {
    var random = FormatSamples(seed: 99)
    func check<Record: ArchiveRecord>(_ record: Record, _ seed: UInt64) throws {
      let original = record.encoded()
      for _ in 0..<200 {
        var bytes = original
        for _ in 0..<random.number(1...3) {
          let place = Int(random.number(8...UInt64(bytes.count - 5)))
          bytes[place] = random.isTrue() ? 0xFF : UInt8(truncatingIfNeeded: random.next())
        }
        if random.isTrue() { bytes.removeLast(Int(random.number(0...UInt64(bytes.count - 16)))) }
        let sealed = FormatChecks.sealed(bytes)
        var decoded: Record?
        let error = try FormatChecks.error { decoded = try Record(sealed) }
        #expect((decoded == nil) != (error == nil), "seed \(seed)")
        // A value has one encoding, so nothing of the bytes was ignored.
        if let decoded { #expect(decoded.encoded() == sealed, "seed \(seed)") }
      }
    }
    try forEachSample(seeds: 20...60) { try check($0, $1) }
  }

  @Test func impossibleNumbersAreRefused() throws {
    var samples = FormatSamples(seed: 6)
    for value in [0, ArchiveLimits.term + 1, .max] as [UInt64] {
      var bytes = samples.term().encoded()
      bytes.store(value, at: 28)
      #expect(try kind(decoding: FormatChecks.sealed(bytes), as: TermRecord.self) == .damaged)
      for place in [28, 44] {
        var bytes = samples.checkpoint().encoded()
        bytes.store(value, at: place)
        let kind = try kind(decoding: FormatChecks.sealed(bytes), as: CheckpointRecord.self)
        #expect(kind == .damaged, "\(value) at \(place)")
      }
    }
  }

  @Test func namesThatLeaveTheArchiveAreRefused() throws {
    var samples = FormatSamples(seed: 8)
    let record = samples.checkpoint()
    let name = record.contents.name.description
    let others = [
      String(repeating: "../", count: 15) + "aa", name.uppercased(),
      String(name.dropLast()) + "/", "log" + name.dropFirst(3),
    ]
    for other in others {
      #expect(other.utf8.count == name.utf8.count)
      var bytes = record.encoded()
      bytes.replaceSubrange(118..<(118 + name.utf8.count), with: Array(other.utf8))
      let kind = try kind(decoding: FormatChecks.sealed(bytes), as: CheckpointRecord.self)
      #expect(kind == .damaged, "\(other)")
    }
  }

  @Test func longWriterNamesAreCutAfterACharacter() throws {
    let term = TermRecord(
      archiveID: StoreIdentifier(low: 1, high: 2), term: 1, nonce: Nonce(low: 3, high: 4),
      createdMilliseconds: 5, instanceID: StoreIdentifier(low: 6, high: 7),
      writer: String(repeating: "語", count: 100))
    #expect(term.writer == String(repeating: "語", count: 85))
    #expect(try TermRecord(term.encoded()) == term)
  }
}

/// The contents of checkpoints.
@Suite struct CheckpointContentsTests {
  private func decode(_ object: [UInt8]) throws -> CheckpointContents {
    try object.withUnsafeBytes { try CheckpointContents(decodingContainer: $0) }
  }

  @Test func contentsAreReadFromTheirContainer() throws {
    for seed in 1...20 as ClosedRange<UInt64> {
      var samples = FormatSamples(seed: seed)
      let contents = samples.contents(segments: Int(seed * 10))
      let object = contents.container()
      #expect(try decode(object) == contents, "seed \(seed)")
      let reference = ContentsReference(name: samples.dataName(), object: object)
      try object.withUnsafeBytes { try reference.verify($0) }
    }
  }

  @Test func damagedContainersOfContentsAreRefused() throws {
    var samples = FormatSamples(seed: 11)
    let object = samples.contents(segments: 2).container()
    let reference = ContentsReference(name: samples.dataName(), object: object)
    try FormatChecks.expectDamageIsFound(object, "contents") { _ = try decode($0) }
    try FormatChecks.expectDamageIsFound(object, "a reference") {
      try $0.withUnsafeBytes { try reference.verify($0) }
    }
  }

  @Test func manifestWithOtherSegmentsIsRefused() throws {
    var samples = FormatSamples(seed: 12)
    let original = samples.contents(segments: 3)
    var changes: [CheckpointContents] = []
    for change in 0..<4 {
      var contents = original
      switch change {
      case 0: contents.segments.removeLast()
      case 1: contents.segments.swapAt(0, 1)
      case 2: contents.segments[1].lengthBytes -= 1
      default: contents.segments[2].epoch += 1
      }
      changes.append(contents)
    }
    var manifest = try original.decodedManifest()
    manifest.segments[0].flags = []
    var open = original
    open.manifest = manifest.encoded()
    for contents in changes + [open] {
      let error = try FormatChecks.error { _ = try decode(contents.container()) }
      #expect(error?.kind == .damaged)
    }
  }

  /// The counts are verified by the checksum, and false. Nothing may be allocated for them.
  @Test func forgedCountsAreRefused() throws {
    var samples = FormatSamples(seed: 13)
    for count in [1, 0x7FFF_FFFF, .max] as [UInt32] {
      var bytes = samples.contents(segments: 0).encoded()
      bytes.store(count, at: 28)
      let error = try FormatChecks.error { _ = try CheckpointContents(FormatChecks.sealed(bytes)) }
      #expect(error?.kind == .damaged)
      bytes = samples.contents(segments: 0).encoded()
      bytes.store(count, at: 32)
      let other = try FormatChecks.error { _ = try CheckpointContents(FormatChecks.sealed(bytes)) }
      #expect(other?.kind == .damaged)
    }
  }

  @Test func manifestErrorsNameTheOffsetInTheContents() throws {
    var samples = FormatSamples(seed: 14)
    var contents = samples.contents(segments: 0)
    contents.manifest[0] ^= 1
    let error = try FormatChecks.error { _ = try CheckpointContents(contents.encoded()) }
    #expect(error?.offset == 36)
  }
}
