public import Foundation

extension ModelFormat where Model: Codable {
  /// JSON, one object for each model, as `moraine dump` prints it.
  public static var json: ModelFormat { json() }

  /// Returns a JSON format, one object for each model. From version 2 on the object begins with a
  /// member `"$version"`. A value that is not an object, such as the text of a setting, is then
  /// stored in a member `"$value"` after it.
  ///
  /// - Parameters:
  ///   - version: the version that is written, from 1.
  ///   - encoder: the encoder for every model. A repository uses it from one task at a time. Do not
  ///     set `.prettyPrinted`: a model must be one line.
  ///   - decoder: the decoder for every model. A repository uses it from one task at a time.
  public static func json(
    version: Int = 1, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()
  ) -> ModelFormat {
    let body = JSONBody(encoder: encoder, decoder: decoder)
    return ModelFormat(
      version: version, codec: body, opening: JSONBody.open,
      writing: { JSONBody.mark(try body.encode($0), version) },
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

  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    [UInt8](try encoder.encode(value))
  }

  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try decoder.decode(type, from: Data(bytes))
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
