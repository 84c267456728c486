/// A program's own conversion of values to bytes and back: CBOR, MessagePack, encrypted JSON, and
/// so on.
///
/// ```swift
/// struct Sealed: ModelCodec {
///   let key: SymmetricKey
///   func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
///     Array(try AES.GCM.seal(JSONEncoder().encode(value), using: key).combined!)
///   }
///   func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
///     let box = try AES.GCM.SealedBox(combined: bytes)
///     return try JSONDecoder().decode(type, from: AES.GCM.open(box, using: key))
///   }
/// }
/// let notes = try LocalRepository<Note>(directory: folder, format: .codec(Sealed(key: key)))
/// ```
///
/// An error that the codec throws becomes `.encodingFailed` or `.decodingFailed`, with the key of
/// the model.
public protocol ModelCodec: Sendable {
  /// Encodes a value. A repository calls this from one task at a time; settings call it from any
  /// number of tasks.
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// Decodes a value.
  ///
  /// - Parameters:
  ///   - type: the type of the value.
  ///   - bytes: bytes that ``encode(_:)`` returned for this or an earlier version of the type.
  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

extension ModelFormat where Model: Codable {
  /// Returns a format that uses a codec. A stored model begins with its version number, "v1:", and
  /// then has the codec's bytes.
  ///
  /// - Parameters:
  ///   - codec: converts models to bytes and back.
  ///   - version: the version that is written, from 1.
  public static func codec(_ codec: some ModelCodec, version: Int = 1) -> ModelFormat {
    versioned(codec, version: version, marksTheFirst: true)
  }

  /// Returns a format with version marks.
  ///
  /// - Parameter marksTheFirst: whether models of version 1 have a mark too. If not, the codec's
  ///   bytes must not begin with "v".
  static func versioned(
    _ codec: some ModelCodec, version: Int, marksTheFirst: Bool
  ) -> ModelFormat {
    ModelFormat(
      version: version, codec: codec,
      opening: { try VersionMark.open($0, isOptional: !marksTheFirst) },
      writing: { model in
        let bytes = try codec.encode(model)
        return version == 1 && !marksTheFirst ? bytes : VersionMark.mark(bytes, version)
      })
  }
}

/// The version number in front of a body: "v2:".
private enum VersionMark {
  private static let letter = UInt8(ascii: "v")

  static func mark(_ body: [UInt8], _ version: Int) -> [UInt8] {
    Array("v\(version):".utf8) + body
  }

  /// Splits stored bytes into the version and the body.
  ///
  /// - Parameter isOptional: whether bytes without a mark are of version 1.
  static func open(
    _ bytes: [UInt8], isOptional: Bool
  ) throws -> (version: Int, body: [UInt8]) {
    if isOptional, bytes.first != letter { return (1, bytes) }
    let digits = bytes.dropFirst().prefix { (0x30...0x39).contains($0) }
    let rest = bytes.dropFirst(1 + digits.count)
    guard bytes.first == letter, rest.first == UInt8(ascii: ":"),
      let version = Int(String(decoding: digits, as: UTF8.self)), version > 0
    else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "its version is not a number"))
    }
    return (version, Array(rest.dropFirst()))
  }
}
