public import Foundation
import MoraineEngine

/// How an id becomes a key, and back: the id's text in UTF-8.
public struct ModelKey<ID: Sendable>: Sendable {
  let text: @Sendable (ID) -> String
  let id: @Sendable (String) -> ID?

  /// Ids that are written by closures of your own.
  ///
  /// - Parameters:
  ///   - text: the id in words; ids that differ must have different ones.
  ///   - id: the way back; nil for what no id is written like.
  public init(
    text: @escaping @Sendable (ID) -> String, id: @escaping @Sendable (String) -> ID?
  ) {
    self.text = text
    self.id = id
  }

  /// Ids that are equal have one key: texts that differ in how a letter is composed are equal to
  /// Swift, so they become the same bytes (Unicode Standard Annex 15, form C).
  func key(_ id: ID) -> Key {
    let text = text(id)
    return Key(
      text.utf8.allSatisfy { $0 < 0x80 } ? text : text.precomposedStringWithCanonicalMapping)
  }
}

extension ModelKey where ID: LosslessStringConvertible {
  /// For ids that say their own text: `String`, `Int`, and types of your own.
  public static var lossless: ModelKey { ModelKey(text: \.description, id: { ID($0) }) }
}

extension ModelKey where ID == UUID {
  /// For UUIDs, which Foundation does not make `LosslessStringConvertible`.
  public static var uuid: ModelKey {
    ModelKey(text: \.uuidString, id: { UUID(uuidString: $0) })
  }
}

extension ModelKey where ID: RawRepresentable, ID.RawValue: LosslessStringConvertible & Sendable {
  /// For enums and other types with a raw value: the text of the raw value.
  public static var rawValue: ModelKey {
    ModelKey(
      text: { $0.rawValue.description },
      id: { ID.RawValue($0).flatMap { ID(rawValue: $0) } })
  }
}
