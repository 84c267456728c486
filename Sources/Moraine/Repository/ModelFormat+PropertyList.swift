import Foundation

extension ModelFormat where Model: Codable {
  /// Binary property lists. A model of version 2 or later is stored below the number of its version.
  public static func propertyList(version: Int = 1) -> ModelFormat {
    let body = PropertyListBody()
    return ModelFormat(version: version, decoder: body, opening: PropertyListBody.open) { model in
      let bytes = try body.encode(model)
      return version == 1 ? bytes : PropertyListBody.mark(bytes, version)
    }
  }
}

private struct PropertyListBody: BodyDecoder {
  /// Before the list itself, which begins with "bplist": "v2:bplist00…".
  private static let letter = UInt8(ascii: "v")

  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    return [UInt8](try encoder.encode(value))
  }

  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try PropertyListDecoder().decode(type, from: Data(bytes))
  }

  static func mark(_ list: [UInt8], _ version: Int) -> [UInt8] {
    Array("v\(version):".utf8) + list
  }

  @Sendable static func open(_ bytes: [UInt8]) throws -> (version: Int, body: [UInt8]) {
    guard bytes.first == letter else { return (1, bytes) }
    let digits = bytes.dropFirst().prefix { (0x30...0x39).contains($0) }
    let rest = bytes.dropFirst(1 + digits.count)
    guard let version = Int(String(decoding: digits, as: UTF8.self)), version > 0,
      rest.first == UInt8(ascii: ":")
    else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "its version is no number"))
    }
    return (version, Array(rest.dropFirst()))
  }
}
