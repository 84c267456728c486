import Moraine

/// A theme that a user types at a terminal, stored as JSON.
enum Theme: String, Codable, Sendable, LosslessStringConvertible {
  case light, dark

  init?(_ description: String) { self.init(rawValue: description) }

  var description: String { rawValue }
}

extension PersistedKey where Value == Theme {
  static var theme: Self { Self("theme", default: .light) }
}

extension PersistedKey where Value == Int {
  static var size: Self { Self("size", default: 12) }
}
