public import Foundation
import MoraineEngine

/// The format in which models are written, and the migrations that read older versions of them.
///
/// ```swift
/// let format = ModelFormat<User>.json(version: 2)
///   .migrating(from: 1, UserV1.self) { User(id: $0.id, name: $0.first + " " + $0.last) }
/// ```
///
/// A stored model is migrated when it is read. It is written in the new form when it is saved the
/// next time. Reading a model of a version above ``version`` throws `.newerFormat`: a program must
/// not guess the meaning of a later version.
///
/// A model should be decoded as it was encoded. JSON and property lists do that with each standard
/// type. A codec, and an encoder or a decoder with a strategy of the program, may change a value: a
/// date in ISO 8601 loses its fraction. Indexes and caches then take the model as it is decoded,
/// which costs one decoding for each save, and saving a model that cannot be decoded again throws
/// `.encodingFailed`. A change that the model's own `Codable` implementation makes is not noticed:
/// indexes and caches have such a model as it was given.
public struct ModelFormat<Model: Sendable>: Sendable {
  /// The version that is written, from 1.
  public let version: Int
  /// Splits a stored value into its version and its body.
  private let opening: @Sendable ([UInt8]) throws -> (version: Int, body: [UInt8])
  private let writing: @Sendable (Model) throws -> [UInt8]
  /// Encodes for a comparison: models with the same contents to the same bytes, where that needs
  /// another order than ``writing`` has.
  private let comparing: @Sendable (Model) throws -> [UInt8]
  private var readers: [Int: @Sendable ([UInt8]) throws -> Model]
  private let codec: any ModelCodec
  /// Whether each value of a standard type is decoded as it was encoded.
  private let isExact: Bool
  /// Decodes many bodies of the current version at once; nil where that is not faster.
  private let readingTogether: (@Sendable ([[UInt8]]) throws -> [Model])?

  init(
    version: Int, codec: any ModelCodec, isExact: Bool,
    opening: @escaping @Sendable ([UInt8]) throws -> (version: Int, body: [UInt8]),
    writing: @escaping @Sendable (Model) throws -> [UInt8],
    comparing: (@Sendable (Model) throws -> [UInt8])? = nil,
    readingTogether: (@Sendable ([[UInt8]]) throws -> [Model])? = nil
  ) where Model: Decodable {
    precondition(version > 0, "the version of a model is at least 1")
    self.version = version
    self.opening = opening
    self.writing = writing
    self.comparing = comparing ?? writing
    self.readingTogether = readingTogether
    self.codec = codec
    self.isExact = isExact
    readers = [version: { try codec.decode(Model.self, from: $0) }]
  }

  /// Returns this format with a migration from an earlier version of the model.
  ///
  /// - Parameters:
  ///   - old: the earlier version, from 1 to below ``version``.
  ///   - type: the type as which models of that version are decoded.
  ///   - convert: converts a model of that version to the current one. An error that it throws
  ///     becomes `.decodingFailed`.
  public func migrating<Old: Decodable & SendableMetatype>(
    from old: Int, _ type: Old.Type, _ convert: @escaping @Sendable (Old) throws -> Model
  ) -> ModelFormat {
    precondition(old > 0 && old < version, "a migration must start from an earlier version")
    var format = self
    let codec = codec
    format.readers[old] = { try convert(codec.decode(Old.self, from: $0)) }
    return format
  }

  /// Decodes values together. Returns nil when one of them has another version or cannot be
  /// decoded: the caller then decodes each value alone and gets its error.
  func decodeTogether(_ values: some Sequence<[UInt8]>) -> [Model]? {
    guard let readingTogether else { return nil }
    do {
      var bodies: [[UInt8]] = []
      for value in values {
        let found = try opening(value)
        if found.version != version { return nil }
        bodies.append(found.body)
      }
      return try readingTogether(bodies)
    } catch {
      return nil
    }
  }

  /// Encodes one value.
  ///
  /// - Parameter noun: the noun for the value in error messages.
  /// - Throws: `.encodingFailed`.
  func encode(
    _ model: Model, _ key: Key, _ place: String, as noun: String = "model"
  ) throws(StoreError) -> [UInt8] {
    do { return try writing(model) } catch {
      throw StoreError(
        .encodingFailed, "the \(noun) '\(key)' cannot be encoded: \(error)", file: place)
    }
  }

  /// Returns the model that decoding an encoded model gives.
  ///
  /// Indexes and caches take this model, because all other answers come from the stored bytes. A
  /// program's own encoder or codec may change a value, for example drop the fraction of a date.
  ///
  /// - Parameter bytes: the model, encoded.
  /// - Throws: `.encodingFailed` when the format cannot decode what it has written.
  func asRead(
    _ model: Model, _ bytes: [UInt8], _ key: Key, _ place: String
  ) throws(StoreError) -> Model {
    if isExact { return model }
    do throws(StoreError) { return try decode(bytes, key, place) } catch {
      throw StoreError(
        .encodingFailed, "the format cannot decode what it has written: \(error.message)",
        file: place)
    }
  }

  /// Whether two models have the same contents: their encodings are compared, because a type may
  /// call models equal that are not the same. False where one cannot be encoded.
  func areSame(_ one: Model, _ other: Model) -> Bool {
    do { return try comparing(one) == comparing(other) } catch { return false }
  }

  /// Decodes one stored value and migrates it if necessary.
  ///
  /// - Parameter noun: the noun for the value in error messages.
  /// - Throws: `.newerFormat`, `.decodingFailed`.
  func decode(
    _ bytes: [UInt8], _ key: Key, _ place: String, as noun: String = "model"
  ) throws(StoreError) -> Model {
    func undecodable(_ why: String) -> StoreError {
      StoreError(
        .decodingFailed, "the \(noun) '\(key)' cannot be decoded: \(why)", file: place)
    }
    let found: (version: Int, body: [UInt8])
    do { found = try opening(bytes) } catch { throw undecodable("\(error)") }
    guard found.version <= version else {
      throw StoreError(
        .newerFormat,
        "the \(noun) '\(key)' has version \(found.version), but this program knows \(version); "
          + "update the program", file: place)
    }
    guard let reader = readers[found.version] else {
      throw undecodable("it has version \(found.version), and there is no migration from it")
    }
    do { return try reader(found.body) } catch { throw undecodable("\(error)") }
  }
}

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
  /// Encodes a value. Several tasks may call this at once.
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// Decodes a value. Several tasks may call this at once.
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
    versioned(codec, version: version, marksTheFirst: true, isExact: false)
  }

  /// Returns a format with version marks.
  ///
  /// - Parameters:
  ///   - marksTheFirst: whether models of version 1 have a mark too. If not, the codec's bytes must
  ///     not begin with "v".
  ///   - isExact: whether each value of a standard type is decoded as it was encoded.
  static func versioned(
    _ codec: some ModelCodec, version: Int, marksTheFirst: Bool, isExact: Bool
  ) -> ModelFormat {
    ModelFormat(
      version: version, codec: codec, isExact: isExact,
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

extension ModelFormat where Model: Codable {
  /// JSON, one object for each model, as `moraine dump` prints it.
  public static var json: ModelFormat { json() }

  /// Returns a JSON format, one object for each model. From version 2 on the object begins with a
  /// member `"$version"`. A value that is not an object, such as the text of a setting, is then
  /// stored in a member `"$value"` after it.
  ///
  /// - Parameters:
  ///   - version: the version that is written, from 1.
  ///   - encoder: the encoder for every model. Several tasks may use it at once. Do not set
  ///     `.prettyPrinted`: a model must be one line.
  ///   - decoder: the decoder for every model. Several tasks may use it at once.
  public static func json(
    version: Int = 1, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()
  ) -> ModelFormat {
    let body = JSONBody(encoder: encoder, decoder: decoder)
    return ModelFormat(
      version: version, codec: body, isExact: body.isExact, opening: JSONBody.open,
      writing: { JSONBody.mark(try body.encode($0), version) },
      comparing: { try body.sorted($0) },
      readingTogether: { try body.decode([Model].self, from: JSONBody.array($0)) })
  }
}

private struct JSONBody: ModelCodec {
  private static let marker = Array("{\"$version\":".utf8)
  private static let wrapping = Array("\"$value\":".utf8)
  private static let wrapped = Array("{\"$value\":".utf8)
  private static let comma = UInt8(ascii: ",")
  private static let end = UInt8(ascii: "}")
  let encoder: JSONEncoder
  let decoder: JSONDecoder

  /// Whether each value of a standard type is decoded as it was encoded. Only the strategies that
  /// both have at first are known for that: others round dates, or rename members.
  var isExact: Bool {
    guard type(of: encoder) == JSONEncoder.self, type(of: decoder) == JSONDecoder.self,
      encoder.userInfo.isEmpty, decoder.userInfo.isEmpty,
      case .deferredToDate = encoder.dateEncodingStrategy,
      case .deferredToDate = decoder.dateDecodingStrategy,
      case .base64 = encoder.dataEncodingStrategy,
      case .base64 = decoder.dataDecodingStrategy,
      case .throw = encoder.nonConformingFloatEncodingStrategy,
      case .throw = decoder.nonConformingFloatDecodingStrategy,
      case .useDefaultKeys = encoder.keyEncodingStrategy,
      case .useDefaultKeys = decoder.keyDecodingStrategy
    else { return false }
    return true
  }

  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    [UInt8](try encoder.encode(value))
  }

  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try decoder.decode(type, from: Data(bytes))
  }

  /// Encodes with the members of objects in the order of their names; otherwise they come in
  /// another order each time.
  func sorted(_ value: some Encodable) throws -> [UInt8] {
    let sorting = JSONEncoder()
    sorting.outputFormatting = encoder.outputFormatting.union(.sortedKeys)
    sorting.dateEncodingStrategy = encoder.dateEncodingStrategy
    sorting.dataEncodingStrategy = encoder.dataEncodingStrategy
    sorting.nonConformingFloatEncodingStrategy = encoder.nonConformingFloatEncodingStrategy
    sorting.keyEncodingStrategy = encoder.keyEncodingStrategy
    sorting.userInfo = encoder.userInfo
    return [UInt8](try sorting.encode(value))
  }

  /// Inserts the version before the first member of an object, or wraps any other body.
  static func mark(_ body: [UInt8], _ version: Int) -> [UInt8] {
    // A dictionary may itself begin with such a member. It is wrapped, and so decodes unchanged.
    let isUnlike = !body.starts(with: marker) && !body.starts(with: wrapped)
    if version == 1, isUnlike { return body }
    let head = marker + Array("\(version)".utf8)
    guard body.first == UInt8(ascii: "{"), isUnlike else {
      return head + [comma] + wrapping + body + [end]
    }
    let rest = body.dropFirst()
    return head + (rest.first == end ? [] : [comma]) + rest
  }

  static func array(_ bodies: [[UInt8]]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(bodies.reduce(2) { $0 + $1.count + 1 })
    bytes.append(UInt8(ascii: "["))
    for (number, body) in bodies.enumerated() {
      if number > 0 { bytes.append(comma) }
      bytes += body
    }
    bytes.append(UInt8(ascii: "]"))
    return bytes
  }

  @Sendable static func open(_ bytes: [UInt8]) throws -> (version: Int, body: [UInt8]) {
    guard bytes.starts(with: marker) else { return (1, bytes) }
    let digits = bytes.dropFirst(marker.count).prefix { (0x30...0x39).contains($0) }
    guard let version = Int(String(decoding: digits, as: UTF8.self)), version > 0 else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "$version is not a number"))
    }
    // The mark is removed: a dictionary would decode it as one of its members.
    var rest = bytes[digits.endIndex...]
    if rest.first == comma { rest = rest.dropFirst() }
    if rest.starts(with: wrapping), rest.last == end {
      return (version, Array(rest.dropFirst(wrapping.count).dropLast()))
    }
    return (version, [UInt8(ascii: "{")] + rest)
  }
}

extension ModelFormat where Model: Codable {
  /// Returns a format of binary property lists. A model of version 2 or later is stored after its
  /// version number.
  public static func propertyList(version: Int = 1) -> ModelFormat {
    // A property list begins with "bplist", which cannot be taken for a version mark.
    versioned(PropertyListCodec(), version: version, marksTheFirst: false, isExact: true)
  }
}

private struct PropertyListCodec: ModelCodec {
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    return [UInt8](try encoder.encode(value))
  }

  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try PropertyListDecoder().decode(type, from: Data(bytes))
  }
}
