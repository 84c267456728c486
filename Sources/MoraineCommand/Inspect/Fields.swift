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
    var text: [UInt8] = []
    Text.appendPrintable(bytes, to: &text)
    words.append("\(name) \(String(decoding: text, as: UTF8.self))")
    var member: [UInt8] = []
    Text.appendMember(name, bytes, to: &member)
    members.append(String(decoding: member, as: UTF8.self))
  }

  private mutating func add(_ name: String, _ text: String, _ json: String) {
    words.append("\(name) \(text)")
    members.append("\"\(name)\":\(json)")
  }

  func line(json: Bool) -> String {
    json ? "{" + members.joined(separator: ",") + "}" : words.joined(separator: "  ")
  }
}
