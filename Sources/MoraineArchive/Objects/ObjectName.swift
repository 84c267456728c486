/// The name of an object: parts of `a-z`, `0-9` and `-`, separated by `/`. So a name needs no
/// escaping in a URL or in a file system.
public struct ObjectName: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The whole name, for example `users/log/000000000000017`. Empty for the root of a store of
  /// objects.
  public let text: String

  public var description: String { text }

  /// The root of a store of objects.
  public static let root = ObjectName(unchecked: "")

  /// The length of the longest name, in bytes.
  public static let lengthBytes = 512

  /// - Throws: `.invalidName` when a part is empty or contains another character.
  public init(_ text: String) throws(ArchiveError) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    let isValid = parts.allSatisfy { part in
      !part.isEmpty && part.utf8.allSatisfy(Self.isAllowed)
    }
    guard text.isEmpty || isValid, text.utf8.count <= Self.lengthBytes else {
      throw ArchiveError(
        .invalidName,
        "'\(text)' cannot be the name of an object; use parts of a-z, 0-9 and -, separated by /")
    }
    self.text = text
  }

  private init(unchecked text: String) { self.text = text }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// Returns the name of an object under this one.
  ///
  /// - Parameter part: one or more parts, of the allowed characters.
  package func appending(_ part: String) -> ObjectName {
    precondition(
      part.utf8.allSatisfy { Self.isAllowed($0) || $0 == UInt8(ascii: "/") },
      "a part of an object's name has a character that is not allowed")
    return ObjectName(unchecked: text.isEmpty ? part : text + "/" + part)
  }

  /// The parts of the name.
  package var parts: [Substring] { text.split(separator: "/") }

  /// By bytes.
  public static func < (left: ObjectName, right: ObjectName) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }
}
