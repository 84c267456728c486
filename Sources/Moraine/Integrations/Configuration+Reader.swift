#if ConfigurationReader
  public import Configuration
  public import MoraineEngine

  /// Reading a configuration with swift-configuration.
  extension Store.Configuration {
    /// Reads the configuration of a store with swift-configuration.
    ///
    /// Each key has the name of its property: `durability` (`sync`, `interval` or `none`),
    /// `durabilityIntervalMilliseconds`, `segmentSizeBytes`, `ioMode` (`mapped` or `positional`),
    /// `createIfMissing`, `isReadOnly`, `sharing` (`exclusive` or `shared`),
    /// `checkpointFloorBytes`, `compaction.isAutomatic`, `compaction.spaceAmplificationLimit`,
    /// `compaction.idleSpaceAmplificationLimit`, `compaction.liveRatioLimit`,
    /// `compaction.rateLimitBytesPerSecond`, `compaction.sharesDictionaries`. A missing key has its
    /// default. Scope the reader to the part that has the keys: `reader.scoped(to: "store")`.
    ///
    /// - Throws: `InvalidValue` for the first value that cannot be understood or that is outside
    ///   the range of its property. No value is rounded or replaced by a default.
    public init(reader: ConfigReader) throws(InvalidValue) {
      self.init()
      let settings = SettingReader(reader)
      durability = try settings.durability() ?? durability
      try settings.read("segmentSizeBytes", settings.int, into: &segmentSizeBytes)
      ioMode =
        try settings.choice("ioMode", ["mapped": .mapped, "positional": .positional]) ?? ioMode
      try settings.read("createIfMissing", settings.bool, into: &createIfMissing)
      try settings.read("isReadOnly", settings.bool, into: &isReadOnly)
      sharing =
        try settings.choice("sharing", ["exclusive": .exclusive, "shared": .shared]) ?? sharing
      try settings.read("checkpointFloorBytes", settings.int, into: &checkpointFloorBytes)
      compaction = try CompactionPolicy(settings.scoped(to: "compaction"))
      try checkBounds()
    }

    /// A setting with a value that is not allowed.
    public struct InvalidValue: Error, Hashable, Sendable, CustomStringConvertible {
      /// The key as it is documented, relative to the scope of the reader.
      public let key: String
      /// The value that was found.
      public let value: String
      /// The allowed values, in words.
      public let expected: String

      public var description: String {
        "the setting '\(key)' is '\(value)'; it must be \(expected)"
      }
    }

    /// Checks the values against their ranges. The store would take the nearest allowed value
    /// without an error; a hand-written file must mean what it says.
    private func checkBounds() throws(InvalidValue) {
      let bounded = bounded()
      try check(segmentSizeBytes, "segmentSizeBytes", bounded.segmentSizeBytes)
      try check(checkpointFloorBytes, "checkpointFloorBytes", bounded.checkpointFloorBytes)
      let (policy, near) = (compaction, bounded.compaction)
      try check(
        policy.spaceAmplificationLimit, "compaction.spaceAmplificationLimit",
        near.spaceAmplificationLimit)
      try check(
        policy.idleSpaceAmplificationLimit, "compaction.idleSpaceAmplificationLimit",
        near.idleSpaceAmplificationLimit)
      try check(policy.liveRatioLimit, "compaction.liveRatioLimit", near.liveRatioLimit)
      if let rate = policy.rateLimitBytesPerSecond, let nearRate = near.rateLimitBytesPerSecond {
        try check(rate, "compaction.rateLimitBytesPerSecond", nearRate)
      }
    }

    private func check<Value: Equatable>(
      _ value: Value, _ key: String, _ nearest: Value
    ) throws(InvalidValue) {
      guard value != nearest else { return }
      throw InvalidValue(
        key: key, value: "\(value)", expected: "in its range; the nearest value is \(nearest)")
    }
  }

  extension CompactionPolicy {
    fileprivate init(_ settings: SettingReader) throws(Store.Configuration.InvalidValue) {
      self.init()
      try settings.read("isAutomatic", settings.bool, into: &isAutomatic)
      try settings.read(
        "spaceAmplificationLimit", settings.double, into: &spaceAmplificationLimit)
      try settings.read(
        "idleSpaceAmplificationLimit", settings.double, into: &idleSpaceAmplificationLimit)
      try settings.read("liveRatioLimit", settings.double, into: &liveRatioLimit)
      rateLimitBytesPerSecond = try settings.int("rateLimitBytesPerSecond")
      try settings.read("sharesDictionaries", settings.bool, into: &sharesDictionaries)
    }
  }
#endif
