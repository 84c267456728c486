#if ConfigurationReader
  public import Configuration
  public import MoraineEngine

  /// Settings from outside of the program.
  extension Configuration {
    /// Settings of a store, read by swift-configuration.
    ///
    /// Each key is named like the property: `durability` (`sync`, `interval` or `none`),
    /// `durabilityIntervalMilliseconds`, `segmentSizeBytes`, `ioMode` (`mapped` or `positional`),
    /// `createIfMissing`, `isReadOnly`, `sharing` (`exclusive` or `shared`),
    /// `checkpointFloorBytes`, `compaction.isAutomatic`, `compaction.spaceAmplificationLimit`,
    /// `compaction.liveRatioLimit`, `compaction.rateLimitBytesPerSecond`,
    /// `compaction.sharesDictionaries`. What is not there has its default. Scope the reader to
    /// where they stand: `reader.scoped(to: "store")`.
    ///
    /// - Throws: for the first value that is not understood, or that lies outside of what its
    ///   property allows. Nothing is rounded, and nothing falls back to a default.
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

    /// A setting that says something else than it may.
    public struct InvalidValue: Error, Hashable, Sendable, CustomStringConvertible {
      /// As it is documented, within what the reader was scoped to.
      public let key: String
      /// What is there.
      public let value: String
      /// What may be there, in words.
      public let expected: String

      public var description: String {
        "the setting '\(key)' is '\(value)'; it must be \(expected)"
      }
    }

    /// The store would take the nearer end; a file that is written by hand shall not say one thing
    /// and mean another.
    private func checkBounds() throws(InvalidValue) {
      let bounded = bounded()
      try check(segmentSizeBytes, "segmentSizeBytes", bounded.segmentSizeBytes)
      try check(checkpointFloorBytes, "checkpointFloorBytes", bounded.checkpointFloorBytes)
      let (policy, near) = (compaction, bounded.compaction)
      try check(
        policy.spaceAmplificationLimit, "compaction.spaceAmplificationLimit",
        near.spaceAmplificationLimit)
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
        key: key, value: "\(value)", expected: "in its range; the nearest is \(nearest)")
    }
  }

  extension CompactionPolicy {
    fileprivate init(_ settings: SettingReader) throws(MoraineEngine.Configuration.InvalidValue) {
      self.init()
      try settings.read("isAutomatic", settings.bool, into: &isAutomatic)
      try settings.read(
        "spaceAmplificationLimit", settings.double, into: &spaceAmplificationLimit)
      try settings.read("liveRatioLimit", settings.double, into: &liveRatioLimit)
      rateLimitBytesPerSecond = try settings.int("rateLimitBytesPerSecond")
      try settings.read("sharesDictionaries", settings.bool, into: &sharesDictionaries)
    }
  }
#endif
