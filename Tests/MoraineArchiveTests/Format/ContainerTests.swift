import MoraineArchive
import MoraineEngine
import MoraineFormat
import Synchronization
import Testing

/// Containers: bytes in blocks, each with a checksum.
@Suite struct ContainerTests {
  private static let block = 4096
  private let writer = ContainerWriter(blockLength: block)
  private let plain = ContainerWriter(codec: .none, blockLength: block)

  /// Raw bytes of every interesting length, compressible and not.
  private static let lengths = [
    0, 1, 23, 24, block - 1, block, block + 1, 3 * block, 3 * block + 17,
  ]

  private func raw(_ length: Int, isText: Bool) -> [UInt8] {
    var samples = FormatSamples(seed: UInt64(length) * 2 + (isText ? 1 : 0))
    return isText ? samples.text(length) : samples.bytes(length)
  }

  private func forEachSample(_ body: ([UInt8], ContainerWriter, String) throws -> Void) throws {
    for length in Self.lengths {
      for isText in [true, false] {
        let raw = raw(length, isText: isText)
        try body(raw, writer, "\(length) bytes, LZ4, text: \(isText)")
        try body(raw, plain, "\(length) bytes, no codec, text: \(isText)")
      }
    }
  }

  private func whole(_ bytes: [UInt8], limit: Int = 1 << 20) throws -> [UInt8] {
    try bytes.withUnsafeBytes { try ContainerReader.rawBytes(of: $0, limit: limit) }
  }

  private func header(_ bytes: [UInt8]) throws -> ContainerHeader {
    try bytes.withUnsafeBytes { try ContainerHeader(decoding: $0) }
  }

  private func source(_ raw: [UInt8]) -> ContainerSource {
    ContainerSource(byteCount: raw.count) { range, visit in
      raw.withUnsafeBytes { visit(UnsafeRawBufferPointer(rebasing: $0[range])) }
    }
  }

  /// Corrects the checksum of header and table.
  private func sealed(_ bytes: [UInt8], headLength: Int) -> [UInt8] {
    FormatChecks.sealed(Array(bytes[..<headLength])) + bytes[headLength...]
  }

  @Test func containersAreReadAsTheyWereWritten() throws {
    try forEachSample { raw, writer, what in
      let result = try whole(writer.container(raw))
      #expect(result == raw, "\(what)")
    }
  }

  @Test func textIsStoredShorterAndRandomBytesAreStoredRaw() throws {
    let text = writer.container(raw(3 * Self.block, isText: true))
    #expect(text.count < 2 * Self.block)
    let random = writer.container(raw(3 * Self.block, isText: false))
    #expect(random.count == 3 * Self.block + 24 + 3 * 4 + 4 + 3 * 4)
    #expect(try header(random).storedLengths == [4096, 4096, 4096])
  }

  @Test func blocksTogetherAreTheWhole() throws {
    try forEachSample { raw, writer, what in
      let bytes = writer.container(raw)
      let reader = ContainerReader(try header(bytes))
      var result: [UInt8] = []
      for index in 0..<reader.header.blockCount {
        let stored = Array(bytes[reader.header.storedRange(ofBlock: index)])
        let block = try stored.withUnsafeBytes { try reader.block(index, from: $0) }
        #expect(Array(raw[reader.header.rawRange(ofBlock: index)]) == block, "\(what)")
        result += block
      }
      #expect(result == raw, "\(what)")
      #expect(reader.header.byteCount == bytes.count, "\(what)")
    }
  }

  @Test func rangesNeedTheirBlocksOnly() throws {
    let raw = raw(5 * Self.block + 100, isText: true)
    let bytes = writer.container(raw)
    let reader = ContainerReader(try header(bytes))
    var samples = FormatSamples(seed: 31)
    for _ in 0..<200 {
      let first = Int(samples.number(0...UInt64(raw.count)))
      let end = Int(samples.number(UInt64(first)...UInt64(raw.count)))
      let blocks = reader.header.blocks(holding: first..<end)
      let stored = Array(bytes[reader.header.storedRange(ofBlocks: blocks)])
      let part = try stored.withUnsafeBytes { try reader.rawBytes(first..<end, from: $0) }
      #expect(part == Array(raw[first..<end]), "\(first)..<\(end)")
    }
    #expect(reader.header.blocks(holding: 4096..<4097) == 1..<2)
    #expect(reader.header.blocks(holding: 4095..<4097) == 0..<2)
    #expect(reader.header.blocks(holding: 4096..<4096).isEmpty)
  }

  @Test func bodyOfTwoPassesIsTheContainer() throws {
    try forEachSample { raw, writer, what in
      let expected = writer.container(raw)
      let body = try writer.body(of: source(raw))
      #expect(body.byteCount == expected.count, "\(what)")
      for attempt in 1...2 {
        let bytes = try body.bytes
        #expect(bytes == expected, "\(what), attempt \(attempt)")
      }
    }
  }

  @Test func defaultBlocksHaveOneMebibyte() throws {
    let raw = raw(2_500_000, isText: true)
    let bytes = ContainerWriter().container(raw)
    #expect(try header(bytes).blockLength == 1 << 20)
    #expect(try header(bytes).blockCount == 3)
    #expect(try whole(bytes, limit: raw.count) == raw)
    #expect(try ContainerWriter().body(of: source(raw)).bytes == bytes)
  }

  @Test func bodyEndsWhenItsReaderWantsNoMore() throws {
    let body = try writer.body(of: source(raw(3 * Self.block, isText: true)))
    for wanted in 1...7 {
      var count = 0
      try body.forEachPiece { _ in
        count += 1
        return count < wanted
      }
      #expect(count == wanted)
    }
  }

  /// Random bytes keep their stored length when they change.
  @Test(arguments: [true, false]) func changedSourceIsAnErrorAndNoTornObject(isText: Bool) throws {
    let raw = raw(3 * Self.block, isText: isText)
    let calls = CallCount()
    let source = ContainerSource(byteCount: raw.count) { range, visit in
      var bytes = Array(raw[range])
      if calls.next() > 4 { bytes[100] ^= 1 }
      bytes.withUnsafeBytes { visit($0) }
    }
    let body = try writer.body(of: source)
    let error = #expect(throws: StoreError.self) { try body.bytes }
    #expect(error?.code == .corrupted)
  }

  @Test func errorsOfTheSourceAreThrown() throws {
    let raw = raw(3 * Self.block, isText: true)
    for failing in 1...6 {
      let calls = CallCount()
      let source = ContainerSource(byteCount: raw.count) { range, visit throws(StoreError) in
        guard calls.next() != failing else { throw StoreError(.io, "planted") }
        raw.withUnsafeBytes { visit(UnsafeRawBufferPointer(rebasing: $0[range])) }
      }
      let error = #expect(throws: StoreError.self) {
        try writer.body(of: source).bytes
      }
      #expect(error?.code == .io, "call \(failing)")
    }
  }
}

/// Damaged and forged containers.
extension ContainerTests {
  @Test func damagedContainersAreRefused() throws {
    let raws = [raw(0, isText: true), raw(1, isText: true), raw(Self.block + 100, isText: true)]
    for raw in raws {
      for writer in [writer, plain] where writer.container(raw).count < 2000 || raw.count > 4000 {
        let bytes = writer.container(raw)
        try FormatChecks.expectDamageIsFound(bytes, "\(raw.count) bytes") { _ = try whole($0) }
      }
    }
  }

  @Test func damageOfOneBlockLeavesTheOthersReadable() throws {
    let raw = raw(3 * Self.block, isText: true)
    let bytes = writer.container(raw)
    let reader = ContainerReader(try header(bytes))
    let place = reader.header.storedRange(ofBlock: 1)
    try FormatChecks.forEachFlip(of: bytes, in: place) { damaged, _ in
      for index in 0..<3 {
        let stored = Array(damaged[reader.header.storedRange(ofBlock: index)])
        let error = try FormatChecks.error {
          _ = try stored.withUnsafeBytes { try reader.block(index, from: $0) }
        }
        #expect(error?.kind == (index == 1 ? .damaged : nil))
        #expect(error == nil || error?.offset == UInt64(place.lowerBound))
      }
    }
  }

  @Test func newerVersionsCodecsAndEncryptionsAreNewer() throws {
    let original = writer.container(raw(100, isText: true))
    for (place, value) in [(8, 2), (9, 1), (10, 2), (10, 0xFF), (11, 1)] as [(Int, UInt8)] {
      var bytes = original
      bytes[place] = value
      #expect(try FormatChecks.error { _ = try whole(bytes) }?.kind == .damaged)
      let error = try FormatChecks.error { _ = try whole(sealed(bytes, headLength: 32)) }
      #expect(error?.kind == .newer, "\(value) at \(place)")
    }
  }

  /// The numbers are verified by the checksum, and false. Nothing may be allocated for them.
  @Test func forgedLengthsAreRefused() throws {
    let original = writer.container(raw(3 * Self.block, isText: true))
    let headLength = 24 + 3 * 4 + 4
    func expectDamage(_ what: String, _ change: (inout [UInt8]) -> Void) throws {
      var bytes = original
      change(&bytes)
      let error = try FormatChecks.error {
        _ = try whole(sealed(bytes, headLength: headLength), limit: .max)
      }
      #expect(error?.kind == .damaged, "\(what)")
    }
    for value in [0, 1, 4095, 4097, 1 << 24, 1 << 25, .max] as [UInt32] {
      try expectDamage("block length \(value)") { $0.store(value, at: 12) }
    }
    for value in [0, 1, 12_289, 1 << 20, 1 << 32, 1 << 33, 1 << 63, .max] as [UInt64] {
      try expectDamage("raw length \(value)") { $0.store(value, at: 16) }
    }
    for place in [24, 28, 32] {
      for value in [0, 1, 15, 4095, 4096, 4097, 1 << 31, .max] as [UInt32] {
        try expectDamage("stored length \(value)") { $0.store(value, at: place) }
      }
    }
  }

  /// No memory is allocated for a block that is too short for its raw bytes.
  @Test func impossibleCompressionIsRefusedByTheTable() throws {
    let original = writer.container(raw(3 * Self.block, isText: true))
    for (stored, isPossible) in [(15, false), (16, true)] as [(UInt32, Bool)] {
      var bytes = original
      bytes.store(stored, at: 28)
      let sealed = sealed(bytes, headLength: 24 + 3 * 4 + 4)
      let error = try FormatChecks.error { _ = try header(sealed) }
      #expect(error?.offset == (isPossible ? nil : 28), "\(stored) bytes")
    }
  }

  @Test func readerOfAWholeContainerChecksItsLength() throws {
    let bytes = writer.container(raw(100, isText: true))
    for other in [Array(bytes.dropLast()), bytes + [0]] {
      let error = try FormatChecks.error {
        _ = try other.withUnsafeBytes { try ContainerReader(whole: $0) }
      }
      #expect(error?.kind == .damaged)
    }
  }

  @Test func stateAboveTheCallersLimitIsRefused() throws {
    let bytes = writer.container(raw(100, isText: true))
    #expect(try whole(bytes, limit: 100).count == 100)
    let error = try FormatChecks.error { _ = try whole(bytes, limit: 99) }
    #expect(error?.offset == 16)
  }

  /// A block whose checksum is right and which is no LZ4 block of its raw length.
  @Test func forgedBlocksAreRefused() throws {
    var samples = FormatSamples(seed: 33)
    let original = writer.container(raw(2000, isText: true))
    let place = try header(original).storedRange(ofBlock: 0)
    for round in 0..<500 {
      var bytes = original
      for _ in 0..<samples.number(1...4) {
        let changed = Int(samples.number(UInt64(place.lowerBound)...UInt64(place.upperBound - 5)))
        bytes[changed] = UInt8(truncatingIfNeeded: samples.next())
      }
      let block = FormatChecks.sealed(Array(bytes[place]))
      bytes.replaceSubrange(place, with: block)
      var decoded: [UInt8]?
      let error = try FormatChecks.error { decoded = try whole(bytes) }
      #expect(decoded?.count == 2000 || error?.kind == .damaged, "round \(round)")
    }
  }

  @Test func headLengthIsKnownFromTheFirstBytes() throws {
    for length in Self.lengths {
      let bytes = writer.container(raw(length, isText: true))
      let claim = try bytes.withUnsafeBytes {
        try ContainerHeader.claimedHeadLength(UnsafeRawBufferPointer(rebasing: $0[..<24]))
      }
      let head = try header(Array(bytes[..<claim]))
      #expect(head.headLength == claim)
      #expect(head.byteCount == bytes.count)
      let error = try FormatChecks.error { _ = try header(Array(bytes[..<(claim - 1)])) }
      #expect(error?.kind == .damaged)
    }
  }
}

/// The number of calls of a closure.
private final class CallCount: Sendable {
  private let count = Mutex(0)

  func next() -> Int {
    count.withLock {
      $0 += 1
      return $0
    }
  }
}
