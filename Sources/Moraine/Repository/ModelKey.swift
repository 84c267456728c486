public import Foundation
import MoraineEngine

/// The conversion of an id to a key and back. A key is the id's text in UTF-8.
public struct ModelKey<ID: Sendable>: Sendable {
  let text: @Sendable (ID) -> String
  let id: @Sendable (String) -> ID?

  /// Creates a conversion from two closures.
  ///
  /// - Parameters:
  ///   - text: returns the text of an id. Different ids must have different texts.
  ///   - id: returns the id that a text stands for; nil when no id has this text.
  public init(
    text: @escaping @Sendable (ID) -> String, id: @escaping @Sendable (String) -> ID?
  ) {
    self.text = text
    self.id = id
  }

  /// Returns the key of an id. Ids that are equal have the same key: for Swift, texts that differ
  /// only in how a letter is composed are equal, so they become the same bytes (Unicode Standard
  /// Annex 15, form C).
  func key(_ id: ID) -> Key {
    let text = text(id)
    return Key(
      text.utf8.allSatisfy { $0 < 0x80 } ? text : text.precomposedStringWithCanonicalMapping)
  }
}

extension ModelKey where ID: LosslessStringConvertible {
  /// The conversion for ids that have a text of their own: `String`, `Int`, and types of your own.
  public static var lossless: ModelKey { ModelKey(text: \.description, id: { ID($0) }) }
}

extension ModelKey where ID == UUID {
  /// The conversion for UUIDs, which are not `LosslessStringConvertible` in Foundation.
  public static var uuid: ModelKey {
    ModelKey(text: \.uuidString, id: { UUID(uuidString: $0) })
  }
}

extension ModelKey where ID: RawRepresentable, ID.RawValue: LosslessStringConvertible & Sendable {
  /// The conversion for enums and other types with a raw value: the text of the raw value.
  public static var rawValue: ModelKey {
    ModelKey(
      text: { $0.rawValue.description },
      id: { ID.RawValue($0).flatMap { ID(rawValue: $0) } })
  }
}
