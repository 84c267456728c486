#if S3
  /// Reads the few elements that S3's answers need from XML: elements that contain only text.
  ///
  /// Not a validating parser: it knows elements, text and the predefined and numeric references. It
  /// skips attributes, declarations and comments. It reads each byte a bounded number of times, and
  /// keeps nothing but the texts that it reports.
  enum XMLScanner {
    /// Calls the argument with the name and the text of each element that contains only text, in
    /// their order.
    ///
    /// - Returns: whether the bytes are one whole element; false for a cut or another text.
    static func forEachText(in bytes: [UInt8], _ visit: (String, String) -> Void) -> Bool {
      var open: [Range<Int>] = []
      // The element whose text began there; nil when the last tag was not an opening one.
      var textStart: Int?
      var index = 0
      var hasElement = false
      while let start = bytes[index...].firstIndex(of: UInt8(ascii: "<")) {
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: ">")), end > start + 1
        else { return false }
        index = end + 1
        switch bytes[start + 1] {
        case UInt8(ascii: "?"), UInt8(ascii: "!"): textStart = nil
        case UInt8(ascii: "/"):
          guard let name = open.popLast(), bytes[name].elementsEqual(bytes[start + 2..<end])
          else { return false }
          if let textStart {
            visit(String(decoding: bytes[name], as: UTF8.self), text(bytes[textStart..<start]))
          }
          textStart = nil
        default:
          hasElement = true
          let tag = bytes[start + 1..<end]
          let name = tag.prefix { $0 > UInt8(ascii: " ") && $0 != UInt8(ascii: "/") }
          if tag.last == UInt8(ascii: "/") {
            visit(String(decoding: name, as: UTF8.self), "")
            textStart = nil
          } else {
            open.append(name.startIndex..<name.endIndex)
            guard open.count <= depthLimit else { return false }
            textStart = index
          }
        }
      }
      return hasElement && open.isEmpty
    }

    /// The most elements inside each other. S3 has three.
    private static let depthLimit = 32

    /// Replaces references by their characters. An unknown reference stays as it is.
    private static func text(_ bytes: ArraySlice<UInt8>) -> String {
      guard bytes.contains(UInt8(ascii: "&")) else { return String(decoding: bytes, as: UTF8.self) }
      var result: [UInt8] = []
      var rest = bytes
      while let byte = rest.popFirst() {
        // No reference is longer than `&#1114111;`.
        guard byte == UInt8(ascii: "&"),
          let end = rest.prefix(10).firstIndex(of: UInt8(ascii: ";")),
          let scalar = scalar(String(decoding: rest[..<end], as: UTF8.self))
        else {
          result.append(byte)
          continue
        }
        result += Array(String(Character(scalar)).utf8)
        rest = rest[(end + 1)...]
      }
      return String(decoding: result, as: UTF8.self)
    }

    private static func scalar(_ reference: String) -> Unicode.Scalar? {
      switch reference {
      case "amp": return "&"
      case "lt": return "<"
      case "gt": return ">"
      case "quot": return "\""
      case "apos": return "'"
      default: break
      }
      let number =
        reference.hasPrefix("#x")
        ? UInt32(reference.dropFirst(2), radix: 16)
        : reference.hasPrefix("#") ? UInt32(reference.dropFirst()) : nil
      return number.flatMap(Unicode.Scalar.init)
    }
  }
#endif
