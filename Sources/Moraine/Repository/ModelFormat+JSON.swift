public import Foundation

extension ModelFormat where Model: Codable {
  /// JSON, one object a model, as `moraine dump` prints it.
  public static var json: ModelFormat { json() }

  /// JSON, one object a model. From version 2 on it begins with a member `"$version"`.
  ///
  /// - Parameters:
  ///   - version: of what is written, from 1.
  ///   - encoder: used for every model, from one task at a time for each repository. It must not print
  ///     prettily: a model takes a line.
  public static func json(
    version: Int = 1, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()
  ) -> ModelFormat {
    let body = JSONBody(decoder: decoder)
    return ModelFormat(version: version, decoder: body, opening: JSONBody.open) { model in
      let bytes = [UInt8](try encoder.encode(model))
      return version == 1 ? bytes : JSONBody.mark(bytes, version)
    }
  }
}

private struct JSONBody: BodyDecoder {
  private static let marker = Array("{\"$version\":".utf8)
  let decoder: JSONDecoder

  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try decoder.decode(type, from: Data(bytes))
  }

  /// Puts the version before the first member.
  static func mark(_ object: [UInt8], _ version: Int) -> [UInt8] {
    let rest = object.dropFirst()
    let isEmpty = rest.first == UInt8(ascii: "}")
    return marker + Array("\(version)".utf8) + (isEmpty ? [] : [UInt8(ascii: ",")]) + rest
  }

  /// The decoder ignores the member, so the object stays as it is.
  @Sendable static func open(_ bytes: [UInt8]) throws -> (version: Int, body: [UInt8]) {
    guard bytes.starts(with: marker) else { return (1, bytes) }
    let digits = bytes.dropFirst(marker.count).prefix { (0x30...0x39).contains($0) }
    guard let version = Int(String(decoding: digits, as: UTF8.self)), version > 0 else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "$version is no number"))
    }
    return (version, bytes)
  }
}
