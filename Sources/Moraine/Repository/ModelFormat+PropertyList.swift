import Foundation

extension ModelFormat where Model: Codable {
  /// Returns a format of binary property lists. A model of version 2 or later is stored after its
  /// version number.
  public static func propertyList(version: Int = 1) -> ModelFormat {
    // A property list begins with "bplist", which cannot be taken for a version mark.
    versioned(PropertyListCodec(), version: version, marksTheFirst: false)
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
