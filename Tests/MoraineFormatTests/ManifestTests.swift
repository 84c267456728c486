import MoraineFormat
import Testing

@Suite("Manifest") struct ManifestTests {
  private var manifest: Manifest {
    var generator = SeededGenerator(seed: 9)
    var manifest = Manifest(
      storeID: StoreIdentifier(low: generator.next(), high: generator.next()),
      instanceID: StoreIdentifier(low: generator.next(), high: generator.next()),
      hashKey: HashKey(k0: generator.next(), k1: generator.next()))
    manifest.epoch = generator.next() >> 1 | 1 << 62
    manifest.generation = generator.next() >> 1
    manifest.lastSequence = .max
    manifest.nextSegmentNumber = 1000
    manifest.feedHorizon = SequenceNumber(rawValue: generator.next() >> 8)
    manifest.watermarkSegment = generator.next()
    manifest.watermarkOffset = generator.next()
    manifest.compactedThrough = SequenceNumber(rawValue: generator.next())
    manifest.digest = StateDigest(low: generator.next(), high: generator.next())
    manifest.createdMilliseconds = generator.next()
    for number in [999, 3, 5] as [UInt64] {
      var segment = Manifest.Segment(
        number: SegmentNumber(rawValue: number), epoch: generator.next() >> 2)
      segment.lengthBytes = generator.next() >> 35
      segment.recordCount = generator.next()
      segment.firstSequence = SequenceNumber(rawValue: generator.next() >> 8)
      segment.lastSequence = SequenceNumber(rawValue: generator.next() >> 8)
      segment.liveBytes = generator.next()
      segment.flags = number == 999 ? [.sealed, .compacted] : number == 3 ? [.sealed, .cut] : []
      manifest.segments.append(segment)
    }
    manifest.keyspaces = [
      Manifest.Keyspace(id: 7, index: 0, name: "users"),
      Manifest.Keyspace(id: 0xFEFF, index: 0, name: "größer"),
    ]
    manifest.epochs = [
      Manifest.Epoch(
        epoch: 1, firstSequence: SequenceNumber(rawValue: 1), instanceID: manifest.instanceID)
    ]
    return manifest
  }

  private func decode(_ bytes: [UInt8]) throws -> Manifest {
    try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
  }

  private func kind(decoding bytes: [UInt8]) throws -> FormatError.Kind? {
    try errorKind { _ = try decode(bytes) }
  }

  /// Makes changed bytes a sound file again: corrects its length and its checksum.
  private func sealed(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    bytes.put(UInt32(bytes.count), at: 12)
    bytes.put(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
    return bytes
  }

  private func adding(tag: UInt16, flags: UInt16, _ payload: [UInt8]) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: manifest.encoded().dropLast(4))
    writer.append(tag)
    writer.append(flags)
    writer.append(UInt32(payload.count))
    writer.append(contentsOf: payload)
    writer.append(UInt32(0))
    writer.replace(at: 156, with: UInt32(4))
    return sealed(writer.bytes)
  }

  @Test func roundTrip() throws {
    let bytes = manifest.encoded()
    let decoded = try decode(bytes)
    #expect(decoded == manifest)
    #expect(!decoded.isClean)
    #expect(bytes == sealed(bytes))
    let empty = Manifest(
      storeID: StoreIdentifier(low: 1, high: 2), instanceID: StoreIdentifier(low: 3, high: 4),
      hashKey: HashKey(k0: 5, k1: 6))
    #expect(try decode(empty.encoded()) == empty)
    #expect(empty.isClean)
  }

  @Test func placesInArchivesAreKept() throws {
    var written = manifest
    written.attachment = Manifest.Attachment(
      archiveID: written.instanceID, term: 7, earlierTerm: 5)
    written.following = Manifest.Following(
      archiveID: written.storeID, position: 1 << 40, term: 9, nonceLow: 3, nonceHigh: 4,
      checkpoint: 2)
    let bytes = written.encoded()
    let read = try decode(bytes)
    #expect(read.attachment == written.attachment && read.following == written.following)
  }

  @Test func noDamageIsTakenForAManifest() throws {
    let bytes = manifest.encoded()
    try forEachFlip(of: bytes, in: bytes.indices) { damaged, place in
      let kind = try kind(decoding: damaged)
      #expect(kind == .damaged, "byte \(place)")
    }
    for length in bytes.indices {
      #expect(try kind(decoding: Array(bytes[..<length])) == .damaged, "\(length) bytes")
    }
    #expect(try kind(decoding: bytes + [0]) == .damaged)
    #expect(try kind(decoding: [UInt8](repeating: 0, count: 512)) == .damaged)
  }

  @Test func unknownSectionsAreSkippedUnlessRequired() throws {
    #expect(try decode(adding(tag: 900, flags: 0, [1, 2, 3])) == manifest)
    #expect(try decode(adding(tag: 900, flags: 0, [])) == manifest)
    #expect(try kind(decoding: adding(tag: 900, flags: 1, [1, 2, 3])) == .newer)
  }

  @Test func newerIsNotDamaged() throws {
    let changes = [8: 2, 9: 1, 10: 1, 154: 1, 155: 0x80] as [Int: UInt8]
    for (place, value) in changes {
      var bytes = manifest.encoded()
      bytes[place] = value
      #expect(try kind(decoding: bytes) == .damaged, "byte \(place)")
      #expect(try kind(decoding: sealed(bytes)) == .newer, "byte \(place)")
    }
    var bytes = manifest.encoded()
    bytes[153] = 0x80
    #expect(try decode(sealed(bytes)) == manifest)
    // The first segment entry begins after the section's head; its last 12 bytes are zero.
    bytes[160 + 8 + 60] = 1
    #expect(try kind(decoding: sealed(bytes)) == .newer)
  }

  @Test func impossibleFieldsAreRefused() throws {
    let original = manifest.encoded()
    let changes: [(place: Int, value: UInt64)] = [
      (80, 1 << 56), (88, 0), (88, 999), (168, 0), (168, 1000), (176, (4 << 30) + 1),
      // Lower than a number that the manifest lists.
      (64, 1), (80, 1),
      // Deletes after the last operation were not dropped.
      (96, 1 << 56),
    ]
    for (place, value) in changes {
      var bytes = original
      bytes.put(value, at: place)
      #expect(try kind(decoding: sealed(bytes)) == .damaged, "\(value) at \(place)")
    }
    for count in [0, 2, 4, UInt32.max] as [UInt32] {
      var bytes = original
      bytes.put(count, at: 156)
      #expect(try kind(decoding: sealed(bytes)) == .damaged, "\(count) sections")
    }
    for tag in 1...3 as ClosedRange<UInt16> {
      #expect(try kind(decoding: adding(tag: tag, flags: 1, [9])) == .damaged, "tag \(tag)")
    }
    #expect(try kind(decoding: adding(tag: 2, flags: 1, [1, 0, 0, 1, 0x61])) == nil)
    #expect(try kind(decoding: adding(tag: 2, flags: 1, [1, 0, 0, 1, 0xFF])) == .damaged)
    // Keyspace 0 has no name, every other keyspace has one, and no two have the same number or
    // name.
    for (id, name) in [(0, "a"), (1, ""), (7, "a"), (1, "users")] as [(UInt8, String)] {
      let entry = [id, 0, 0, UInt8(name.utf8.count)] + Array(name.utf8)
      #expect(try kind(decoding: adding(tag: 2, flags: 1, entry)) == .damaged, "\(id) \(name)")
    }
  }

  /// Regression: such a keyspace was listed, and its name gave access to the records of the system.
  @Test func keyspacesOfTheSystemAreNotListed() throws {
    for id in [0xFF00, 0xFFFF] as [UInt16] {
      let entry: [UInt8] = [UInt8(id & 0xFF), UInt8(id >> 8), 0, 1, 0x61]
      #expect(try kind(decoding: adding(tag: 2, flags: 1, entry)) == .damaged, "\(id)")
    }
    #expect(try decode(manifest.encoded()).keyspaces.last?.id == 0xFEFF)
  }

  private func cutManifest(_ ends: [UInt64]) -> Manifest {
    var manifest = Manifest(
      storeID: StoreIdentifier(low: 1, high: 2), instanceID: StoreIdentifier(low: 3, high: 4),
      hashKey: HashKey(k0: 5, k1: 6))
    manifest.lastSequence = SequenceNumber(rawValue: 1 << 40)
    for (place, end) in ends.enumerated() {
      manifest.addCut(after: SequenceNumber(rawValue: end), id: UInt64(place + 1))
    }
    return manifest
  }

  /// A cut that ended the log no later than an earlier cut contains everything that the earlier cut
  /// says.
  @Test func redundantCutsAreDropped() throws {
    #expect(cutManifest([10, 20, 15]).cuts.map(\.lastSequence.rawValue) == [10, 15])
    #expect(cutManifest([10, 20, 15]).cuts.map(\.number) == [1, 3])
    #expect(cutManifest([10, 20, 10]).cuts.map(\.number) == [3])
    let manifest = cutManifest([10, 20, 15])
    let bytes = manifest.encoded()
    #expect(try bytes.withUnsafeBytes { try Manifest(decoding: $0) } == manifest)
  }

  @Test func cutsShowWhetherOperationsOfAnEarlierCopyMayBeLost() {
    func lost(_ ends: [UInt64], _ known: Int, _ last: UInt64) -> Bool {
      let before = cutManifest(Array(ends[..<known])).cuts
      return cutManifest(ends).mayHaveLost(through: SequenceNumber(rawValue: last), since: before)
    }
    #expect(!lost([10, 20], 2, 500))
    #expect(!lost([10, 20], 1, 20))
    #expect(lost([10, 20], 1, 21))
    #expect(lost([10, 20], 0, 11))
    #expect(!lost([10, 20], 0, 10))
    #expect(lost([30, 20], 0, 21))
    // Cuts of a copy that diverged, or of a later moment.
    var other = cutManifest([])
    other.addCut(after: SequenceNumber(rawValue: 10), id: 99)
    #expect(cutManifest([10]).mayHaveLost(through: .none, since: other.cuts))
    #expect(cutManifest([]).mayHaveLost(through: .none, since: other.cuts))
  }

  @Test func cutsAreBounded() throws {
    let ends = (1...500).map { UInt64($0 * 10) }
    let manifest = cutManifest(ends)
    #expect(manifest.cuts.count == 64)
    #expect(manifest.cuts.last?.number == 500)
    // The oldest cut says as much as all the cuts that it replaces.
    let none: [Manifest.Cut] = []
    #expect(manifest.mayHaveLost(through: SequenceNumber(rawValue: 11), since: none))
    #expect(!manifest.mayHaveLost(through: SequenceNumber(rawValue: 10), since: none))
  }
}
