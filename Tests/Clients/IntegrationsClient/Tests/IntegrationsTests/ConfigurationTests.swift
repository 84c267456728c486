import Configuration
import Moraine
import Testing

/// Tests of the trait `ConfigurationReader`.
@Suite struct ConfigurationTests {
  typealias Settings = Store.Configuration

  private func reader(_ values: [AbsoluteConfigKey: ConfigValue]) -> ConfigReader {
    ConfigReader(provider: InMemoryProvider(values: values))
  }

  private func environment(_ variables: [String: String]) -> ConfigReader {
    ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
  }

  @Test func missingSettingsHaveTheirDefaults() throws {
    let read = try Settings(reader: reader([:]))
    let usual = Settings()
    #expect(read.durability == usual.durability)
    #expect(read.segmentSizeBytes == usual.segmentSizeBytes)
    #expect(read.ioMode == usual.ioMode)
    #expect(read.createIfMissing && !read.isReadOnly)
    #expect(read.sharing == usual.sharing)
    #expect(read.compaction == usual.compaction)
    #expect(read.checkpointFloorBytes == usual.checkpointFloorBytes)
    #expect(read.onEvent == nil)
  }

  @Test func everySettingIsRead() throws {
    let read = try Settings(
      reader: reader([
        "store.durability": "sync", "store.segmentSizeBytes": 8_388_608,
        "store.ioMode": "positional", "store.createIfMissing": false, "store.isReadOnly": true,
        "store.sharing": "shared", "store.checkpointFloorBytes": 0,
        "store.compaction.isAutomatic": false, "store.compaction.spaceAmplificationLimit": 2.5,
        "store.compaction.idleSpaceAmplificationLimit": 1.25,
        "store.compaction.liveRatioLimit": 0.5,
        "store.compaction.rateLimitBytesPerSecond": 1_000_000,
        "store.compaction.sharesDictionaries": false,
      ]).scoped(to: "store"))
    #expect(read.durability == .sync)
    #expect(read.segmentSizeBytes == 8 << 20)
    #expect(read.ioMode == .positional)
    #expect(!read.createIfMissing && read.isReadOnly)
    #expect(read.sharing == .shared)
    #expect(read.checkpointFloorBytes == 0)
    var policy = CompactionPolicy.manual
    policy.spaceAmplificationLimit = 2.5
    policy.idleSpaceAmplificationLimit = 1.25
    policy.liveRatioLimit = 0.5
    policy.rateLimitBytesPerSecond = 1_000_000
    policy.sharesDictionaries = false
    #expect(read.compaction == policy)
  }

  @Test func theEnvironmentIsUnderstood() throws {
    let read = try Settings(
      reader: environment([
        "STORE_DURABILITY_INTERVAL_MILLISECONDS": "250", "STORE_SEGMENT_SIZE_BYTES": "4096",
        "STORE_IS_READ_ONLY": "true", "STORE_COMPACTION_SPACE_AMPLIFICATION_LIMIT": "2",
        "STORE_SHARING": "shared",
      ]).scoped(to: "store"))
    #expect(read.durability == .interval(.milliseconds(250)))
    #expect(read.segmentSizeBytes == 4096)
    #expect(read.isReadOnly)
    #expect(read.compaction.spaceAmplificationLimit == 2)
    #expect(read.sharing == .shared)
  }

  @Test func durabilitiesAndTheirIntervals() throws {
    func durability(_ values: [AbsoluteConfigKey: ConfigValue]) throws -> Durability {
      try Settings(reader: reader(values)).durability
    }
    #expect(try durability(["durability": "none"]) == .none)
    #expect(try durability(["durability": "interval"]) == .interval(.seconds(1)))
    let both: [AbsoluteConfigKey: ConfigValue] = [
      "durability": "interval", "durabilityIntervalMilliseconds": 20,
    ]
    #expect(try durability(both) == .interval(.milliseconds(20)))
    #expect(
      try durability(["durabilityIntervalMilliseconds": 3000]) == .interval(.seconds(3)))
  }

  struct Wrong: Sendable, CustomTestStringConvertible {
    let key: String
    let value: ConfigValue
    let told: String
    var others: [AbsoluteConfigKey: ConfigValue] = [:]
    var testDescription: String { "\(key) = \(told)" }
  }

  static let wrong = [
    Wrong(key: "durability", value: "fsync", told: "fsync"),
    Wrong(key: "durability", value: true, told: "true"),
    Wrong(key: "durabilityIntervalMilliseconds", value: 0, told: "0"),
    Wrong(
      key: "durabilityIntervalMilliseconds", value: 5, told: "5", others: ["durability": "sync"]),
    Wrong(key: "segmentSizeBytes", value: "64 MiB", told: "64 MiB"),
    Wrong(key: "segmentSizeBytes", value: 10, told: "10"),
    Wrong(key: "segmentSizeBytes", value: 1.5, told: "1.5"),
    Wrong(key: "ioMode", value: "MAPPED", told: "MAPPED"),
    Wrong(key: "createIfMissing", value: "perhaps", told: "perhaps"),
    Wrong(key: "isReadOnly", value: 1, told: "1"),
    Wrong(key: "sharing", value: "everybody", told: "everybody"),
    Wrong(key: "checkpointFloorBytes", value: -1, told: "-1"),
    Wrong(key: "compaction.isAutomatic", value: "sometimes", told: "sometimes"),
    Wrong(key: "compaction.spaceAmplificationLimit", value: 1.0, told: "1.0"),
    Wrong(
      key: "compaction.spaceAmplificationLimit", value: .init(.double(.nan), isSecret: false),
      told: "nan"),
    Wrong(key: "compaction.liveRatioLimit", value: 95, told: "95.0"),
    Wrong(key: "compaction.rateLimitBytesPerSecond", value: 0, told: "0"),
    Wrong(
      key: "compaction.sharesDictionaries", value: .init(.intArray([1]), isSecret: false),
      told: "[1]"),
  ]

  @Test(arguments: wrong)
  func invalidValueIsAnErrorThatNamesTheSetting(_ item: Wrong) throws {
    var values = item.others
    let components = item.key.split(separator: ".").map(String.init)
    values[AbsoluteConfigKey(components)] = item.value
    let error = #expect(throws: Settings.InvalidValue.self) {
      try Settings(reader: reader(values))
    }
    #expect(error?.key == item.key)
    #expect(error?.value == item.told)
    #expect(error?.description.contains("'\(item.key)' is '\(item.told)'") == true)
  }

  @Test func wordsOfTheEnvironmentAreNotGuessed() {
    let error = #expect(throws: Settings.InvalidValue.self) {
      try Settings(reader: environment(["SEGMENT_SIZE_BYTES": "64M"]))
    }
    #expect(error?.key == "segmentSizeBytes")
    #expect(error?.value == "64M")
  }

  /// A store uses the settings that were read.
  @Test func storeOpensWithTheSettingsThatWereRead() async throws {
    let configuration = try Settings(
      reader: reader(["segmentSizeBytes": 256, "compaction.isAutomatic": false]))
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<20 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount > 4)
    try await store.close()
  }
}
