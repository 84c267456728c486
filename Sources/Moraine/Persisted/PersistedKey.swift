import MoraineEngine

/// The name, the default and the format of a setting, declared once.
///
/// ```swift
/// extension PersistedKey where Value == Theme {
///   static var theme: Self { Self("theme", default: .light) }
/// }
/// @Persisted(.theme) var theme
/// ```
public struct PersistedKey<Value: Codable & Sendable>: Sendable {
  /// The name of the key in the store. A new name does not move the old value.
  public let name: String
  /// The value while nothing is stored.
  public let defaultValue: Value
  /// The format of the value, by default JSON. It migrates earlier versions when they are read.
  public let format: ModelFormat<Value>

  /// Declares a key. Declare each key once, for one type.
  public init(_ name: String, default value: Value, format: ModelFormat<Value> = .json) {
    self.name = name
    defaultValue = value
    self.format = format
  }
}
