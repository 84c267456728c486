/// The last record of a sealed segment. Layout: `FileFormat.md`, "Footer".
public struct SegmentFooter: Equatable, Sendable {
  public static let payloadLength = 64
  public static let recordLength = RecordHeader.fixedLength + payloadLength

  public var recordCount: UInt64
  public var firstSequence: SequenceNumber
  public var lastSequence: SequenceNumber
  public var wallMilliseconds: UInt64
  public var digest: StateDigest

  public init(
    recordCount: UInt64, firstSequence: SequenceNumber, lastSequence: SequenceNumber,
    wallMilliseconds: UInt64, digest: StateDigest
  ) {
    self.recordCount = recordCount
    self.firstSequence = firstSequence
    self.lastSequence = lastSequence
    self.wallMilliseconds = wallMilliseconds
    self.digest = digest
  }

  public func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(recordCount)
    writer.append(firstSequence.rawValue)
    writer.append(lastSequence.rawValue)
    writer.append(wallMilliseconds)
    writer.append(digest)
    writer.appendZeros(16)
    return writer.bytes
  }

  public init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    var reader = ByteReader(bytes)
    recordCount = try reader.read()
    firstSequence = SequenceNumber(rawValue: try reader.read())
    lastSequence = SequenceNumber(rawValue: try reader.read())
    wallMilliseconds = try reader.read()
    digest = try reader.readDigest()
    try reader.skipZeros(16, "footer")
  }
}
