import Moraine

/// A value that can be written as JSON.
protocol JSONRepresentable {
  var json: String { get }
}

/// A JSON object whose members keep the order in which they were added.
struct JSONObject: JSONRepresentable, ExpressibleByDictionaryLiteral {
  private var members: [String] = []

  init(dictionaryLiteral elements: (String, any JSONRepresentable)...) {
    for (name, value) in elements { add(name, value) }
  }

  mutating func add(_ name: String, _ value: any JSONRepresentable) {
    members.append("\(name.json):\(value.json)")
  }

  /// Adds bytes, as `nameHex` if they are not UTF-8.
  mutating func add(_ name: String, bytes: [UInt8]) { members.append(Text.member(name, bytes)) }

  var json: String { "{" + members.joined(separator: ",") + "}" }
}

extension String: JSONRepresentable {
  var json: String { Text.quoted(self) }
}

extension Optional: JSONRepresentable where Wrapped: JSONRepresentable {
  var json: String { map(\.json) ?? "null" }
}

extension Array: JSONRepresentable where Element: JSONRepresentable {
  var json: String { "[" + map(\.json).joined(separator: ",") + "]" }
}

extension JSONRepresentable where Self: CustomStringConvertible {
  var json: String { description }
}

extension Bool: JSONRepresentable {}
extension Int: JSONRepresentable {}
extension UInt16: JSONRepresentable {}
extension UInt32: JSONRepresentable {}
extension UInt64: JSONRepresentable {}
extension Double: JSONRepresentable {}
extension SequenceNumber: JSONRepresentable {}
extension SegmentNumber: JSONRepresentable {}

extension Store.Statistics: JSONRepresentable {
  /// The statistics as one JSON object on one line.
  var json: String {
    let members = fields.map { field in
      "\"\(field.name)\":" + (field.isText ? "\"\(field.value)\"" : field.value)
    }
    return "{" + members.joined(separator: ",") + "}"
  }
}
