import MoraineEngine
import MoraineStorage
package import SystemPackage

/// A sound store of twelve small segments and an index checkpoint, kept in `Tests/Fuzzing/Fixture`.
/// The random numbers in a newly made store would give each input another meaning in each run.
package enum FixtureStore {
  /// Named after the last segment it covers.
  static let checkpointName = "0000000012.index"
  static let keys = (0..<26).map { Key("key \($0)") }

  private static let loaded = Result { try load() }

  static func files() throws -> StoreFiles { try loaded.get() }

  /// `Tests/Fuzzing`.
  package static let folder: FilePath = FilePath(#filePath).removingLastComponent()
    .removingLastComponent()

  private static func load() throws -> StoreFiles {
    let files = try StoreFiles(inFolder: "Fixture")
    try require(files[checkpointName] != nil, "the fixture has no checkpoint")
    return files
  }

  /// Makes a new fixture.
  package static func make() async throws -> StoreFiles {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.fuzzing(.mapped)
    configuration.segmentSizeBytes = 400
    configuration.checkpointFloorBytes = 0
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<30 {
      let value = [UInt8](repeating: UInt8(number), count: number % 7 * 9)
      try await store.set(value, forKey: keys[number % 20])
    }
    try await store.write { batch in
      try batch.set([1], forKey: keys[20])
      try batch.set([2], forKey: keys[21])
    }
    for number in 0..<4 { try await store.removeValue(forKey: keys[number]) }
    try await store.close()
    var files = try StoreFiles(of: storage)
    files["LOCK"] = nil
    return files
  }
}
