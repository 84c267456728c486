/// Bytes as hexadecimal digits; `-` stands for no bytes.
enum Hexadecimal {
  private static let digits = Array("0123456789abcdef".utf8)

  /// The value of each digit's character; 255 for every other character.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 255, count: 256)
    for (value, digit) in digits.enumerated() {
      values[Int(digit)] = UInt8(value)
      values[Int(Character(UnicodeScalar(digit)).uppercased().utf8.first!)] = UInt8(value)
    }
    return values
  }()

  static func append(_ bytes: [UInt8], to text: inout [UInt8]) {
    guard !bytes.isEmpty else { return text.append(UInt8(ascii: "-")) }
    appendDigits(bytes, to: &text)
  }

  /// Appends digits like ``append(_:to:)``, but nothing for no bytes.
  static func appendDigits(_ bytes: [UInt8], to text: inout [UInt8]) {
    let start = text.count
    text.append(contentsOf: repeatElement(0, count: 2 * bytes.count))
    text.withUnsafeMutableBufferPointer { target in
      digits.withUnsafeBufferPointer { digits in
        var place = start
        for byte in bytes {
          target[place] = digits[Int(byte >> 4)]
          target[place + 1] = digits[Int(byte & 15)]
          place += 2
        }
      }
    }
  }

  /// Returns the bytes, or nil if the text is empty, has an odd length or contains a character
  /// that is no digit.
  static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    if text.count == 1, text.first == UInt8(ascii: "-") { return [] }
    guard !text.isEmpty, text.count.isMultiple(of: 2) else { return nil }
    var isSound = true
    let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 2) { target, count in
      text.withUnsafeBufferPointer { text in
        values.withUnsafeBufferPointer { values in
          // A digit is below 16, so a wrong character (255) sets the high bits of `seen`.
          var seen: UInt8 = 0
          for index in 0..<text.count / 2 {
            let high = values[Int(text[2 * index])]
            let low = values[Int(text[2 * index + 1])]
            seen |= high | low
            target[index] = high << 4 | low & 15
          }
          isSound = seen < 16
        }
      }
      count = text.count / 2
    }
    return isSound ? bytes : nil
  }
}
