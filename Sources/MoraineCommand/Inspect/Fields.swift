/// A line of named values, as text or as a JSON object.
struct Fields {
  private var words: [String] = []
  private var object: JSONObject = [:]

  mutating func add(_ name: String, _ value: some JSONRepresentable) {
    words.append("\(name) \(value)")
    object.add(name, value)
  }

  /// Adds bytes; in JSON under another name if they are not UTF-8.
  mutating func add(_ name: String, bytes: [UInt8]) {
    words.append("\(name) \(Text.printable(bytes))")
    object.add(name, bytes: bytes)
  }

  func line(json: Bool) -> String { json ? object.json : words.joined(separator: "  ") }
}
