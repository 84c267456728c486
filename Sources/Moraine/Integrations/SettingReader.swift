#if ConfigurationReader
  import Configuration
  import MoraineEngine

  /// Reads single settings. It distinguishes a missing setting from one that cannot be understood:
  /// a `ConfigReader` returns nil, or throws, for both.
  struct SettingReader {
    typealias InvalidValue = Store.Configuration.InvalidValue

    private let reader: ConfigReader
    private let scope: String

    init(_ reader: ConfigReader, scope: String = "") {
      self.reader = reader
      self.scope = scope
    }

    func scoped(to name: String) -> SettingReader {
      SettingReader(reader.scoped(to: ConfigKey(name)), scope: scope + name + ".")
    }

    func int(_ name: String) throws(InvalidValue) -> Int? {
      try found(reader.int(forKey: ConfigKey(name)), name, "a whole number")
    }

    /// Returns a number. Where values have types, a whole number counts too.
    func double(_ name: String) throws(InvalidValue) -> Double? {
      let key = ConfigKey(name)
      let value = reader.double(forKey: key) ?? reader.int(forKey: key).map(Double.init)
      return try found(value, name, "a number")
    }

    func bool(_ name: String) throws(InvalidValue) -> Bool? {
      try found(reader.bool(forKey: ConfigKey(name)), name, "true or false")
    }

    /// Reads a setting into `value`, which does not change when the setting is missing.
    func read<Value>(
      _ name: String, _ get: (String) throws(InvalidValue) -> Value?, into value: inout Value
    ) throws(InvalidValue) {
      if let setting = try get(name) { value = setting }
    }

    /// Returns the value of one of the allowed words.
    func choice<Value>(
      _ name: String, _ choices: KeyValuePairs<String, Value>
    ) throws(InvalidValue) -> Value? {
      let words = choices.map { "'\($0.key)'" }.joined(separator: " or ")
      guard let word = try found(reader.string(forKey: ConfigKey(name)), name, words) else {
        return nil
      }
      guard let choice = choices.first(where: { $0.key == word }) else {
        throw invalid(name, word, words)
      }
      return choice.value
    }

    /// Returns the durability, from the level alone, from an interval alone, or from both if they
    /// agree.
    func durability() throws(InvalidValue) -> Durability? {
      let levelName = "durability"
      let intervalName = "durabilityIntervalMilliseconds"
      let milliseconds = try int(intervalName)
      if let milliseconds, milliseconds < 1 {
        throw invalid(intervalName, "\(milliseconds)", "1 or more")
      }
      let interval = milliseconds.map { Durability.interval(.milliseconds($0)) }
      let usual = Durability.interval(.seconds(1))
      let level = try choice(
        levelName, ["sync": Durability.sync, "interval": interval ?? usual, "none": .none])
      if let level, let interval, let milliseconds, level != interval {
        throw invalid(
          intervalName, "\(milliseconds)", "left out unless '\(levelName)' is 'interval'")
      }
      return level ?? interval
    }

    /// Returns the value, or nil when the setting is missing.
    ///
    /// - Throws: when the setting exists and its value could not be understood.
    private func found<Value>(
      _ value: Value?, _ name: String, _ expected: String
    ) throws(InvalidValue) -> Value? {
      if value == nil, let raw = raw(name) { throw invalid(name, raw, expected) }
      return value
    }

    private func invalid(_ name: String, _ value: String, _ expected: String) -> InvalidValue {
      InvalidValue(key: scope + name, value: value, expected: expected)
    }

    /// Returns the text of the setting, whatever its type is; nil when it is missing.
    private func raw(_ name: String) -> String? {
      let key = ConfigKey(name)
      if let value = reader.string(forKey: key) { return value }
      if let value = reader.int(forKey: key) { return "\(value)" }
      if let value = reader.double(forKey: key) { return "\(value)" }
      if let value = reader.bool(forKey: key) { return "\(value)" }
      if let value = reader.stringArray(forKey: key) { return "\(value)" }
      if let value = reader.intArray(forKey: key) { return "\(value)" }
      if let value = reader.doubleArray(forKey: key) { return "\(value)" }
      if let value = reader.boolArray(forKey: key) { return "\(value)" }
      return reader.bytes(forKey: key).map { "\($0.count) bytes" }
    }
  }
#endif
