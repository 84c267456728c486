/// A record in the log which states that everything up to an offset is durable. Layout:
/// `FileFormat.md`.
///
/// Without sync marks a torn tail and lost acknowledged data look the same. (The idea of committing
/// to a sync offset in the log is Pebble's, `record.go`.)
package struct SyncMark: Equatable, Sendable {
  package static let payloadLength = 32
  package static let recordLength = RecordHeader.fixedLength + payloadLength

  package var durableOffset: UInt64
  package var wallMilliseconds: UInt64
  package var digest: StateDigest

  package init(durableOffset: UInt64, wallMilliseconds: UInt64, digest: StateDigest) {
    self.durableOffset = durableOffset
    self.wallMilliseconds = wallMilliseconds
    self.digest = digest
  }

  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(durableOffset)
    writer.append(wallMilliseconds)
    writer.append(digest)
    return writer.bytes
  }

  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    var reader = ByteReader(bytes)
    durableOffset = try reader.read()
    wallMilliseconds = try reader.read()
    digest = try reader.readDigest()
  }
}
