/// The last record of a sealed segment. Layout: `FileFormat.md`, "Footer".
package struct SegmentFooter: Equatable, Sendable {
  package static let payloadLength = 64
  package static let recordLength = RecordHeader.fixedLength + payloadLength

  package var recordCount: UInt64
  package var firstSequence: SequenceNumber
  package var lastSequence: SequenceNumber
  package var wallMilliseconds: UInt64
  package var digest: StateDigest

  package init(
    recordCount: UInt64, firstSequence: SequenceNumber, lastSequence: SequenceNumber,
    wallMilliseconds: UInt64, digest: StateDigest
  ) {
    self.recordCount = recordCount
    self.firstSequence = firstSequence
    self.lastSequence = lastSequence
    self.wallMilliseconds = wallMilliseconds
    self.digest = digest
  }

  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(recordCount)
    writer.append(firstSequence.rawValue)
    writer.append(lastSequence.rawValue)
    writer.append(wallMilliseconds)
    writer.append(digest)
    writer.appendZeros(16)
    return writer.bytes
  }

  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    var reader = ByteReader(bytes)
    recordCount = try reader.read()
    firstSequence = SequenceNumber(rawValue: try reader.read())
    lastSequence = SequenceNumber(rawValue: try reader.read())
    wallMilliseconds = try reader.read()
    digest = try reader.readDigest()
    try reader.skipZeros(16, "footer")
  }
}
