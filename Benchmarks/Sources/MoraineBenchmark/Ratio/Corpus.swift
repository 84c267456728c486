import ArgumentParser
import BenchmarkSupport
import Foundation
import MoraineEngine

/// Unique keys and their values.
struct Corpus: Sendable {
  private(set) var keys: [Key] = []
  private(set) var values: [[UInt8]] = []

  var count: Int { keys.count }
  var keyBytes: UInt64 { UInt64(keys.reduce(0) { $0 + $1.bytes.count }) }
  var valueBytes: UInt64 { UInt64(values.reduce(0) { $0 + $1.count }) }

  /// - Parameter keyField: field that is the key; nil takes the line's number.
  init(jsonLines path: String, keyField: String?) throws {
    var places: [Key: Int] = [:]
    var number = 0
    let content = try Data(contentsOf: URL(fileURLWithPath: path))
    for line in content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      number += 1
      if line.isEmpty { continue }
      let key = try keyField.map { try Self.key($0, in: line, number) } ?? Key("\(number)")
      if let place = places.updateValue(keys.count, forKey: key) {
        places[key] = place
        values[place] = Array(line)
      } else {
        keys.append(key)
        values.append(Array(line))
      }
    }
  }

  init(documents count: Int) {
    var documents = Documents(seed: 5)
    for number in 1...count {
      keys.append(Key("\(number)"))
      values.append(documents.next(number))
    }
  }

  func save(_ path: String) throws {
    var content = Data()
    for value in values {
      content.append(contentsOf: value)
      content.append(UInt8(ascii: "\n"))
    }
    try content.write(to: URL(fileURLWithPath: path))
  }

  private static func key(_ field: String, in line: Data, _ number: Int) throws -> Key {
    let object = try JSONSerialization.jsonObject(with: line) as? [String: Any]
    switch object?[field] {
    case let text as String: return Key(text)
    case let figure as NSNumber: return Key("\(figure)")
    default: throw ValidationError("line \(number) has no field \"\(field)\", text or number")
    }
  }
}
