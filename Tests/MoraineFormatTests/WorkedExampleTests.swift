import Foundation
import MoraineFormat
import Testing

/// The page defines the format: its bytes are the bytes that the code writes.
@Suite("Worked example") struct WorkedExampleTests {
  private func segment() throws -> SegmentSketch {
    var header = SegmentHeader(
      storeID: StoreIdentifier(low: 0x0706_0504_0302_0100, high: 0x0F0E_0D0C_0B0A_0908), epoch: 1,
      number: SegmentNumber(rawValue: 1), salt: 0x8877_6655_4433_2211)
    header.generation = 1
    header.createdMilliseconds = 1_767_225_600_000
    let hashKey = HashKey(k0: 0x0706_0504_0302_0100, k1: 0x0F0E_0D0C_0B0A_0908)
    let (a, z, greeting) = (Array("a".utf8), Array("z".utf8), Array("greeting".utf8))
    var segment = SegmentSketch(header)
    segment.append(.put, sequence: 1, key: greeting, stored: Array("hello".utf8))
    segment.append(.put, sequence: 2, key: a) { $0.batch = .more }
    segment.append(.delete, sequence: 3, key: greeting) {
      $0.batch = .end
      $0.batchCount = 2
    }
    var compressor = Compressor()
    let value = [UInt8](repeating: z[0], count: 64)
    let compressed = value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
    segment.append(.put, sequence: 4, key: z, stored: try #require(compressed)) {
      $0.codec = .lz4
      $0.rawLength = 64
    }
    var digest = StateDigest()
    for (key, sequence) in [(a, 2), (z, 4)] as [([UInt8], UInt64)] {
      let hash = key.withUnsafeBytes { KeyHash.hash($0, keyspace: 0, with: hashKey) }
      digest.add(hash: hash, sequence: sequence)
    }
    let mark = SyncMark(
      durableOffset: UInt64(segment.bytes.count), wallMilliseconds: 1_767_225_601_000,
      digest: digest)
    segment.append(.syncMark, sequence: 4, stored: mark.encoded())
    let footer = SegmentFooter(
      recordCount: 4, firstSequence: SequenceNumber(rawValue: 1),
      lastSequence: SequenceNumber(rawValue: 4), wallMilliseconds: 1_767_225_602_000,
      digest: digest)
    segment.append(.footer, sequence: 4, stored: footer.encoded())
    return segment
  }

  /// The bytes in the code block of the page's section; each line begins with its offset.
  private func pageBytes() throws -> [UInt8] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let page = try String(
      contentsOf: root.appendingPathComponent("Sources/Moraine/Moraine.docc/FileFormat.md"),
      encoding: .utf8)
    let section = try #require(page.components(separatedBy: "\n## Worked example\n").last)
    let blocks = section.components(separatedBy: "```")
    var bytes: [UInt8] = []
    for line in try #require(blocks.dropFirst().first).split(separator: "\n") {
      let words = line.split(separator: " ")
      #expect(words.first.flatMap { Int($0, radix: 16) } == bytes.count, "offset of \(line)")
      bytes += try #require(Hex.decode(words.dropFirst().joined()), "\(line)")
    }
    return bytes
  }

  @Test func pageShowsTheBytesThatTheCodeWrites() throws {
    let written = try segment().bytes
    let shown = try pageBytes()
    #expect(shown == written, "the code writes \(Hex.encode(written))")
  }

  @Test func theBytesOnThePageAreReadBack() throws {
    let shown = try pageBytes()
    let header = try shown.withUnsafeBytes { try SegmentHeader(decoding: $0) }
    #expect(try header == segment().header)
    var kinds: [RecordKind] = []
    var offset = header.headerLength
    while offset < shown.count {
      let record = try #require(
        SegmentSketch.record(in: shown, at: offset, seed: header.checksumSeed))
      kinds.append(record.kind)
      offset += aligned(record.length)
    }
    #expect(offset == shown.count)
    #expect(kinds == [.put, .put, .delete, .put, .syncMark, .footer])
  }
}
