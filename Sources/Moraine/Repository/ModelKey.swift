public import Foundation
import MoraineEngine

/// How an id becomes a key, and back: the id's text in UTF-8.
public struct ModelKey<ID: Sendable>: Sendable {
  let text: @Sendable (ID) -> String
  let id: @Sendable (String) -> ID?

  public init(
    text: @escaping @Sendable (ID) -> String, id: @escaping @Sendable (String) -> ID?
  ) {
    self.text = text
    self.id = id
  }

  func key(_ id: ID) -> Key { Key(text(id)) }
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
