package import MoraineFormat

/// A whole commit: the header, and the raw bytes of its pieces one after another.
package struct Commit: Equatable, Sendable {
  package let header: CommitHeader
  /// The bytes of the pieces, see ``CommitHeader/pieceRanges``.
  package let rawBytes: [UInt8]

  /// Returns the bytes of a commit.
  ///
  /// - Parameters:
  ///   - header: without a payload's length, which is set here.
  ///   - rawBytes: the bytes of the pieces, one after another.
  package static func encoded(
    _ header: CommitHeader, rawBytes: [UInt8], with writer: ContainerWriter = ContainerWriter()
  ) -> [UInt8] {
    precondition(header.rawByteCount == rawBytes.count, "the pieces have other lengths")
    guard !rawBytes.isEmpty else { return header.encoded() }
    let start = header.headerByteCount
    // One buffer: a commit may have megabytes, and each copy of them takes new pages.
    var bytes = ByteWriter()
    bytes.reserve(start + writer.longestLength(rawBytes.count))
    bytes.appendZeros(start)
    rawBytes.withUnsafeBytes { writer.append($0, to: &bytes) }
    var header = header
    header.payloadByteCount = UInt64(bytes.bytes.count - start)
    bytes.replace(at: 0, with: header.encoded())
    return bytes.bytes
  }

  /// Reads a whole commit.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    header = try CommitHeader(decoding: bytes)
    let start = header.headerByteCount
    guard UInt64(bytes.count - start) == header.payloadByteCount else {
      throw FormatError(
        "the payload has \(bytes.count - start) bytes, and the header says "
          + "\(header.payloadByteCount)", at: UInt64(bytes.count))
    }
    guard let count = header.rawByteCount, count > 0 else {
      rawBytes = []
      return
    }
    rawBytes = try ContainerReader.rawBytes(
      of: UnsafeRawBufferPointer(rebasing: bytes[start...]), limit: count, at: UInt64(start))
    guard rawBytes.count == count else {
      throw FormatError(
        "the payload has \(rawBytes.count) raw bytes, and the pieces have \(count)",
        at: UInt64(start) + 16)
    }
  }

  /// Reads a whole commit.
  package init(_ bytes: [UInt8]) throws(FormatError) {
    self = try bytes.withUnsafeBufferPointer { raw throws(FormatError) in
      try Commit(decoding: UnsafeRawBufferPointer(raw))
    }
  }
}
