import Moraine

/// Edits the settings of a store by lines, and tells what becomes of them, whoever changes them.
@MainActor
final class SettingsEditor {
  @Persisted private var theme: Theme
  @Persisted private var size: Int
  /// What was told last of each setting: what differs comes from somebody else.
  private var told: [String: String] = [:]
  private let print: (String) -> Void

  init(_ store: PersistedStore, print: @escaping (String) -> Void) {
    _theme = Persisted(.theme, in: store)
    _size = Persisted(.size, in: store)
    self.print = print
  }

  /// Tells what each setting is.
  func show() {
    show("theme", _theme)
    show("size", _size)
  }

  /// Tells of every setting that somebody else changes, until the task is cancelled.
  func follow() async {
    async let theme: Void = follow("theme", _theme)
    async let size: Void = follow("size", _size)
    _ = await (theme, size)
  }

  /// Carries out one line.
  func perform(_ line: String) async {
    let words = line.split(separator: " ").map(String.init)
    switch (words.first, words.dropFirst().first, words.count) {
    case ("theme", let word?, 2): await set("theme", _theme, to: word)
    case ("size", let word?, 2): await set("size", _size, to: word)
    case ("show", _, 1): show()
    default: print("type 'theme light', 'theme dark', 'size NUMBER', or 'show'")
    }
  }

  private func set<Value: LosslessStringConvertible>(
    _ name: String, _ setting: Persisted<Value>, to word: String
  ) async {
    guard let value = Value(word) else {
      print("'\(word)' is no \(name)")
      return
    }
    setting.wrappedValue = value
    tell(name, value)
    // Without it the value would be saved all the same, soon.
    do { try await setting.projectedValue.save() } catch { print("\(name) is not saved: \(error)") }
  }

  private func follow<Value: LosslessStringConvertible>(
    _ name: String, _ setting: Persisted<Value>
  ) async {
    for await value in setting.projectedValue.values where told[name] != value.description {
      tell(name, value, " (from the other process)")
    }
  }

  private func show<Value: LosslessStringConvertible>(_ name: String, _ setting: Persisted<Value>) {
    tell(name, setting.wrappedValue)
    // A value that cannot be read is never taken for the default in silence.
    if let error = setting.projectedValue.error { print("\(name): \(error)") }
  }

  private func tell(_ name: String, _ value: some LosslessStringConvertible, _ origin: String = "")
  {
    told[name] = value.description
    print("\(name) is \(value)\(origin)")
  }
}
