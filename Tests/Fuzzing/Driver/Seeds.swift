import MoraineFuzzing
import MoraineStorage
import SystemPackage

/// Writes the first inputs of every target, and each fixture that does not exist.
enum Seeds {
  static func write() async throws {
    let (fixture, ordered) = (
      FixtureStore.folder.appending("Fixture"), FixtureStore.folder.appending("OrderedFixture")
    )
    if try DiskStorage().openDirectory(fixture) == nil {
      try await write(FixtureStore.make().files, to: fixture)
    }
    if try DiskStorage().openDirectory(ordered) == nil {
      try await write(OrderedFixture.make().files, to: ordered)
    }
    for target in FuzzTarget.allCases {
      let folder = FixtureStore.folder.appending("Corpus").appending(target.rawValue)
      let named = try FuzzSeeds.make(target).enumerated().map { ("seed-\($0)", $1) }
      try write(Dictionary(uniqueKeysWithValues: named), to: folder)
    }
  }

  private static func write(_ files: [String: [UInt8]], to path: FilePath) throws {
    let storage = DiskStorage()
    try storage.createDirectory(path)
    guard let directory = try storage.openDirectory(path) else { return }
    for (name, bytes) in files {
      try directory.remove(name)
      let file = try directory.createFile(name)
      try bytes.withUnsafeBytes { try file.write($0, at: 0) }
      print(path.appending(name))
    }
  }
}
