import Foundation

/// Writes to the standard streams, whole and at once.
enum Output {
  static func bytes(_ bytes: [UInt8], to handle: FileHandle = .standardOutput) {
    do { try handle.write(contentsOf: bytes) } catch { Foundation.exit(5) }
  }

  static func text(_ text: String, to handle: FileHandle = .standardOutput) {
    bytes(Array((text + "\n").utf8), to: handle)
  }

  static func line(_ line: String) { text(line) }

  static func error(_ message: String) { text("moraine: \(message)", to: .standardError) }

  /// Text as it is; bytes that are not UTF-8, and control characters, as `\xNN`.
  static func printable(_ bytes: [UInt8]) -> String {
    if let text = String(validating: bytes, as: UTF8.self),
      !text.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 })
    {
      return text
    }
    return bytes.map { byte in
      (32..<127).contains(byte)
        ? String(UnicodeScalar(byte)) : "\\x" + Hexadecimal.encode([byte])
    }.joined()
  }
}

/// Bytes as hexadecimal digits; `-` stands for no bytes.
enum Hexadecimal {
  private static let digits = Array("0123456789abcdef".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    if bytes.isEmpty { return "-" }
    let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }

  static func decode(_ text: some StringProtocol) -> [UInt8]? {
    if text == "-" { return [] }
    let characters = Array(text.utf8)
    guard !characters.isEmpty, characters.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: characters.count, by: 2) {
      let pair = String(decoding: characters[index..<index + 2], as: UTF8.self)
      guard let byte = UInt8(pair, radix: 16), !pair.hasPrefix("+") else { return nil }
      bytes.append(byte)
    }
    return bytes
  }
}
