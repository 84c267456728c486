/// Bytes as text, for people to read and for JSON.
enum Text {
  static func isUTF8(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    if bytes.allSatisfy({ $0 < 0x80 }) { return true }
    return String(validating: bytes, as: UTF8.self) != nil
  }

  /// Appends UTF-8 text unchanged. If the bytes are not UTF-8, or contain control characters, which
  /// a terminal would obey, appends each byte beyond ASCII and each control character as `\xNN`.
  static func appendPrintable(_ bytes: [UInt8], to text: inout [UInt8]) {
    let isControl = { (scalar: UnicodeScalar) in scalar.value < 32 || 127..<160 ~= scalar.value }
    if let valid = String(validating: bytes, as: UTF8.self),
      !valid.unicodeScalars.contains(where: isControl)
    {
      return text.append(contentsOf: bytes)
    }
    for byte in bytes {
      if 32..<127 ~= byte {
        text.append(byte)
      } else {
        text.append(contentsOf: #"\x"#.utf8)
        Hexadecimal.appendDigits([byte], to: &text)
      }
    }
  }

  /// Returns the text that ``appendPrintable(_:to:)`` appends.
  static func printable(_ bytes: some Sequence<UInt8>) -> String {
    var text: [UInt8] = []
    appendPrintable(Array(bytes), to: &text)
    return String(decoding: text, as: UTF8.self)
  }

  /// Returns the text that ``appendMember(_:_:to:)`` appends.
  static func member(_ name: String, _ bytes: [UInt8]) -> String {
    var json: [UInt8] = []
    appendMember(name, bytes, to: &json)
    return String(decoding: json, as: UTF8.self)
  }

  /// Appends a member of a JSON object: `"name":"text"`, or `"nameHex":"digits"` for bytes that are
  /// not UTF-8. Exactly one of the two appears, so that no byte is lost or ambiguous.
  static func appendMember(_ name: String, _ bytes: [UInt8], to json: inout [UInt8]) {
    json.append(UInt8(ascii: "\""))
    json.append(contentsOf: name.utf8)
    if bytes.withUnsafeBufferPointer({ isUTF8($0) }) {
      json.append(contentsOf: #"":"#.utf8)
      appendQuoted(bytes, to: &json)
    } else {
      json.append(contentsOf: #"Hex":""#.utf8)
      Hexadecimal.appendDigits(bytes, to: &json)
      json.append(UInt8(ascii: "\""))
    }
  }

  /// Appends UTF-8 as a JSON string.
  static func appendQuoted(_ utf8: some Collection<UInt8>, to json: inout [UInt8]) {
    json.append(UInt8(ascii: "\""))
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "\""): json.append(contentsOf: #"\""#.utf8)
      case UInt8(ascii: "\\"): json.append(contentsOf: #"\\"#.utf8)
      case UInt8(ascii: "\n"): json.append(contentsOf: #"\n"#.utf8)
      case UInt8(ascii: "\r"): json.append(contentsOf: #"\r"#.utf8)
      case UInt8(ascii: "\t"): json.append(contentsOf: #"\t"#.utf8)
      case 0..<32:
        json.append(contentsOf: #"\u00"#.utf8)
        Hexadecimal.appendDigits([byte], to: &json)
      default: json.append(byte)
      }
    }
    json.append(UInt8(ascii: "\""))
  }

  static func quoted(_ text: String) -> String {
    var json: [UInt8] = []
    appendQuoted(text.utf8, to: &json)
    return String(decoding: json, as: UTF8.self)
  }

  /// Returns the text as one word of a shell command.
  static func shellQuoted(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: "/._-+,:@".utf8.contains(byte)
      }
    }
    return isPlain && !text.isEmpty ? text : "'" + text.replacing("'", with: #"'\''"#) + "'"
  }
}
