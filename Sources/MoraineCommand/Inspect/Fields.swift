/// A line of named values: for eyes, or as a JSON object.
struct Fields {
  private var words: [String] = []
  private var members: [String] = []

  mutating func add(_ name: String, _ value: some BinaryInteger) {
    add(name, "\(value)", "\(value)")
  }

  mutating func add(_ name: String, _ value: Bool) { add(name, "\(value)", "\(value)") }

  mutating func add(_ name: String, _ value: String) { add(name, value, Text.quoted(value)) }

  /// Bytes; in JSON under another name when they are not UTF-8.
  mutating func add(_ name: String, _ bytes: [UInt8]) {
    words.append("\(name) \(Text.printable(bytes))")
    members.append(Text.member(name, bytes))
  }

  private mutating func add(_ name: String, _ text: String, _ json: String) {
    words.append("\(name) \(text)")
    members.append("\"\(name)\":\(json)")
  }

  func line(json: Bool) -> String {
    json ? "{" + members.joined(separator: ",") + "}" : words.joined(separator: "  ")
  }
}
