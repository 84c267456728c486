import Moraine

/// Edits the settings of a store line by line, and prints all changes, of this process and of
/// others.
@MainActor
final class SettingsEditor {
  @Persisted private var theme: Theme
  @Persisted private var size: Int
  /// The values printed last. A different value comes from another process.
  private var told: [String: String] = [:]
  private let print: (String) -> Void

  init(_ store: PersistedStore, print: @escaping (String) -> Void) {
    _theme = Persisted(.theme, in: store)
    _size = Persisted(.size, in: store)
    self.print = print
  }

  /// Prints the value of each setting.
  func show() {
    show("theme", _theme)
    show("size", _size)
  }

  /// Prints every change of another process, until the task is cancelled.
  func follow() async {
    async let theme: Void = follow("theme", _theme)
    async let size: Void = follow("size", _size)
    _ = await (theme, size)
  }

  /// Executes one line.
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
    // The value would be saved in the background anyway; this waits for it.
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
    // Report a value that cannot be read, instead of silently using the default.
    if let error = setting.projectedValue.error { print("\(name): \(error)") }
  }

  private func tell(_ name: String, _ value: some LosslessStringConvertible, _ origin: String = "")
  {
    told[name] = value.description
    print("\(name) is \(value)\(origin)")
  }
}
