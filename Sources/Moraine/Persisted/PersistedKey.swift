import MoraineEngine

/// A setting's name, what it is when nothing is stored, and how it is written: declared once.
///
/// ```swift
/// extension PersistedKey where Value == Theme {
///   static var theme: Self { Self("theme", default: .light) }
/// }
/// @Persisted(.theme) var theme
/// ```
public struct PersistedKey<Value: Codable & Sendable>: Sendable {
  /// In the store. Renaming it leaves the old value behind.
  public let name: String
  /// What the value is while nothing is stored.
  public let defaultValue: Value
  /// JSON unless it was said otherwise; earlier versions are migrated when they are read.
  public let format: ModelFormat<Value>

  /// Declares a key: once, for one type.
  public init(_ name: String, default value: Value, format: ModelFormat<Value> = .json) {
    self.name = name
    defaultValue = value
    self.format = format
  }
}
