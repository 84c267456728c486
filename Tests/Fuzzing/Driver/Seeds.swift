import MoraineFuzzing
import MoraineStorage
import SystemPackage

/// Writes the first inputs of every target, and the fixture if none exists.
enum Seeds {
  static func write() async throws {
    let fixture = FixtureStore.folder.appending("Fixture")
    if try DiskStorage().openDirectory(fixture) == nil {
      try await write(FixtureStore.make().files, to: fixture)
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
