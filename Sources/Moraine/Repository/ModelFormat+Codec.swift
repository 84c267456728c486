/// How values become bytes and back: CBOR, MessagePack, an encryption of JSON, whatever a program
/// brings.
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
/// What it throws becomes `.encodingFailed` or `.decodingFailed`, with the key of the model.
public protocol ModelCodec: Sendable {
  /// Called from one task at a time for each repository, and from any for settings.
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// - Parameters:
  ///   - type: what is asked for.
  ///   - bytes: what ``encode(_:)`` has made, of this or an earlier version of the type.
  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

extension ModelFormat where Model: Codable {
  /// Models as a codec writes them, each below the number of its version: "v1:" and the bytes.
  ///
  /// - Parameters:
  ///   - codec: makes bytes of models, and models of bytes.
  ///   - version: of what is written, from 1.
  public static func codec(_ codec: some ModelCodec, version: Int = 1) -> ModelFormat {
    versioned(codec, version: version, marksTheFirst: true)
  }

  /// - Parameter marksTheFirst: whether version 1 is named too. Otherwise what the codec writes
  ///   must begin with another byte than "v".
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

/// The number of a version before a body: "v2:".
private enum VersionMark {
  private static let letter = UInt8(ascii: "v")

  static func mark(_ body: [UInt8], _ version: Int) -> [UInt8] {
    Array("v\(version):".utf8) + body
  }

  /// - Parameter isOptional: whether no mark means version 1.
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
        DecodingError.Context(codingPath: [], debugDescription: "its version is no number"))
    }
    return (version, Array(rest.dropFirst()))
  }
}
