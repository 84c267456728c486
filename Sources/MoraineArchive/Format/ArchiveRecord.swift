package import MoraineFormat

/// A small object of an archive: magic, version, flags, fields, and a checksum of everything before
/// it. Layout: `ArchiveFormat.md`.
package protocol ArchiveRecord: Equatable, Sendable {
  /// The first eight bytes.
  static var magic: [UInt8] { get }
  /// The noun for error messages.
  static var title: String { get }

  /// Appends the fields between the flags and the checksum.
  func encodeFields(to writer: inout ByteWriter)
  /// Reads the fields between the flags and the checksum, which has been verified.
  init(decodingFields reader: inout ByteReader) throws(FormatError)
}

extension ArchiveRecord {
  /// Length of magic, version and flags.
  private static var prefixLength: Int { 12 }

  /// Returns all bytes of the object.
  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Self.magic)
    writer.append(ArchiveLimits.version)
    writer.append(UInt16(0))
    assert(writer.bytes.count == Self.prefixLength, "the layout of a record changed")
    encodeFields(to: &writer)
    writer.append(Checksum.of(writer.bytes))
    return writer.bytes
  }

  /// Reads a whole object.
  ///
  /// The checksum is verified before the version: a damaged version number is damage, not a newer
  /// version.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    let body = try Self.verifiedBody(bytes)
    var reader = ByteReader(body)
    _ = try reader.take(Self.magic.count)
    let version: UInt16 = try reader.read()
    let flags: UInt16 = try reader.read()
    guard version == ArchiveLimits.version else {
      throw FormatError(newer: "version \(version) of \(Self.title)", at: 8)
    }
    guard flags == 0 else {
      throw FormatError(newer: "flags of \(Self.title) that this version does not know", at: 10)
    }
    try self.init(decodingFields: &reader)
    guard reader.remaining == 0 else {
      throw FormatError("bytes after the last field of \(Self.title)", at: reader.offset)
    }
  }

  /// Reads a whole object.
  package init(_ bytes: [UInt8]) throws(FormatError) {
    self = try bytes.withUnsafeBufferPointer { raw throws(FormatError) in
      try Self(decoding: UnsafeRawBufferPointer(raw))
    }
  }

  /// Returns the bytes before the checksum.
  private static func verifiedBody(
    _ bytes: UnsafeRawBufferPointer
  ) throws(FormatError) -> UnsafeRawBufferPointer {
    guard bytes.count >= prefixLength + 4 else {
      throw FormatError("the object is shorter than \(title)", at: UInt64(bytes.count))
    }
    guard bytes.starts(with: magic) else {
      throw FormatError("the object is not \(title) (wrong magic)", at: 0)
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 4)])
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError("the checksum of \(title) does not match", at: UInt64(body.count))
    }
    return body
  }
}

extension ByteWriter {
  mutating func append(_ nonce: Nonce) {
    append(nonce.low)
    append(nonce.high)
  }

  /// Appends a length of two bytes, and the text in UTF-8.
  mutating func append(text: String) {
    append(UInt16(text.utf8.count))
    append(contentsOf: text.utf8)
  }

  mutating func append(_ reference: ContentsReference) {
    append(text: reference.name.description)
    append(reference.byteCount)
    append(reference.checksum)
  }
}

extension ByteReader {
  mutating func readNonce() throws(FormatError) -> Nonce {
    let low: UInt64 = try read()
    return Nonce(low: low, high: try read())
  }

  /// Reads an integer from 1 to a limit.
  mutating func readNumber(_ what: String, through limit: UInt64) throws(FormatError) -> UInt64 {
    let start = offset
    let value: UInt64 = try read()
    guard value >= 1, value <= limit else {
      throw FormatError("invalid \(what) \(value)", at: start)
    }
    return value
  }

  /// Reads a sequence number, or 0.
  mutating func readSequence() throws(FormatError) -> SequenceNumber {
    let start = offset
    let value = SequenceNumber(rawValue: try read())
    guard value <= .max else { throw FormatError("invalid sequence number \(value)", at: start) }
    return value
  }

  /// Reads a length of two bytes, and a text in UTF-8. Repaired text would be another text.
  mutating func readText(_ what: String) throws(FormatError) -> String {
    let start = offset
    let length: UInt16 = try read()
    guard length <= ArchiveLimits.textLengthBytes else {
      throw FormatError("\(what) has \(length) bytes", at: start)
    }
    guard let text = String(validating: try take(Int(length)), as: UTF8.self) else {
      throw FormatError("\(what) is not UTF-8", at: start)
    }
    return text
  }

  mutating func readDataObjectName() throws(FormatError) -> DataObjectName {
    let start = offset
    guard let name = DataObjectName(try readText("the name of an object")) else {
      throw FormatError("a text is not the name of a data object", at: start)
    }
    return name
  }

  mutating func readContentsReference() throws(FormatError) -> ContentsReference {
    let name = try readDataObjectName()
    return ContentsReference(
      name: name, byteCount: try readNumber("length of an object", through: 1 << 62),
      checksum: try read())
  }
}
