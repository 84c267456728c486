import Foundation
import Hummingbird

/// A note of a user.
public struct Note: Codable, Identifiable, Equatable, Sendable {
  /// The id of the note.
  public let id: UUID
  /// The name of the user who wrote the note.
  public let owner: String
  /// The text of the note.
  public var text: String
  /// The time of the last change: milliseconds since the beginning of 1970, UTC.
  public var changed: UInt64
}

extension Note {
  /// The words of the text, each once and with the owner's name: `ada salt`. An index has them. They
  /// are computed, so the stored note does not contain them.
  var ownedWords: Set<String> { Set(Self.words(of: text).map { "\(owner) \($0)" }) }

  /// Returns the words of a text, in lower case.
  static func words(of text: String) -> [String] {
    text.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
  }
}

extension Note: ResponseEncodable {}
