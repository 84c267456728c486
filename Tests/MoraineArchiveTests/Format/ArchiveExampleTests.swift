import Foundation
import MoraineArchive
import MoraineFormat
import Testing

/// The page defines the format: its bytes are the bytes that the code writes.
@Suite struct ArchiveExampleTests {
  private var commit: [UInt8] {
    let digest = UInt64(0xDDDD_DDDD_DDDD_DDDD)
    var header = CommitHeader(
      .tail,
      archiveID: StoreIdentifier(low: 0x0706_0504_0302_0100, high: 0x0F0E_0D0C_0B0A_0908),
      position: 2, term: 1, nonce: Nonce(low: 0x2222_2222_2222_2222, high: 0x2222_2222_2222_2222),
      previousNonce: Nonce(low: 0x1111_1111_1111_1111, high: 0x1111_1111_1111_1111), epoch: 1,
      firstSequence: SequenceNumber(rawValue: 6), lastSequence: SequenceNumber(rawValue: 6))
    header.digest = StateDigest(low: digest, high: digest)
    header.liveCount = 3
    header.milliseconds = 1_767_225_600_000
    header.keyspaces = [CommitHeader.Keyspace(id: 7, isOrdered: true, name: "a")]
    header.pieces = [
      CommitHeader.Piece(
        segment: SegmentNumber(rawValue: 1), epoch: 1, salt: 0x8877_6655_4433_2211, from: 128,
        length: 64)
    ]
    header.logEnd = header.pieces[0].end
    return Commit.encoded(header, rawBytes: [UInt8](repeating: UInt8(ascii: "z"), count: 64))
  }

  /// The bytes in the code block of the page's section; each line begins with its offset.
  private func pageBytes() throws -> [UInt8] {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let page = try String(
      contentsOf: root.appending(path: "Sources/Moraine/Moraine.docc/ArchiveFormat.md"),
      encoding: .utf8)
    let section = try #require(page.components(separatedBy: "\n## Worked example\n").last)
    var bytes: [UInt8] = []
    for line in section.components(separatedBy: "```")[1].split(separator: "\n") {
      let words = line.split(separator: " ")
      #expect(words.first.flatMap { Int($0, radix: 16) } == bytes.count, "offset of \(line)")
      bytes += try #require(Hex.decode(words.dropFirst().joined()), "\(line)")
    }
    return bytes
  }

  @Test func pageShowsTheBytesThatTheCodeWrites() throws {
    let shown = try pageBytes()
    #expect(shown == commit, "the code writes \(Hex.encode(commit))")
    let read = try Commit(shown)
    #expect(read.header.headerByteCount == 278)
    #expect(read.header.payloadByteCount == 47)
    #expect(read.rawBytes == [UInt8](repeating: UInt8(ascii: "z"), count: 64))
  }
}
