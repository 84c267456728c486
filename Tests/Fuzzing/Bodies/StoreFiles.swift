import MoraineEngine
import MoraineFormat
package import MoraineStorage
import SystemPackage

/// The files of a store in memory, as bytes.
package struct StoreFiles {
  package var files: [String: [UInt8]]

  package init(_ files: [String: [UInt8]] = [:]) {
    self.files = files
  }

  /// Copies the present files, as a process that is killed at this moment leaves them.
  package init(of storage: any Storage) throws {
    files = [:]
    guard let directory = try storage.openDirectory("store") else { return }
    for entry in try directory.entries() {
      files[entry.name] = try directory.read(entry.name)
    }
  }

  /// Returns a storage that holds the files.
  package func storage() throws -> MemoryStorage {
    let storage = MemoryStorage()
    try storage.createDirectory("store")
    guard let directory = try storage.openDirectory("store") else { return storage }
    for (name, bytes) in files {
      let file = try directory.createFile(name)
      try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    }
    return storage
  }

  subscript(name: String) -> [UInt8]? {
    get { files[name] }
    set { files[name] = newValue }
  }
}

extension StoreFiles {
  /// Reads a fixture.
  ///
  /// - Parameter name: the name of the folder in `Tests/Fuzzing`.
  init(inFolder name: String) throws {
    let path = FixtureStore.folder.appending(name)
    guard let directory = try DiskStorage().openDirectory(path) else {
      throw Finding("there is no \(path)")
    }
    files = [:]
    for entry in try directory.entries() where entry.kind == .regular {
      files[entry.name] = try directory.read(entry.name)
    }
  }

  var checkpointName: String? { files.keys.first { $0.hasSuffix(".index") } }

  var segmentNames: [String] { files.keys.filter { $0.hasSuffix(".segment") }.sorted() }

  mutating func removeCheckpoints() { files = files.filter { !$0.key.hasSuffix(".index") } }

  func manifest() throws -> Manifest {
    try (files[Manifest.fileName] ?? []).withUnsafeBytes { try Manifest(decoding: $0) }
  }
}

extension StorageDirectory {
  /// Returns all bytes of a file; none when the file does not exist.
  package func read(_ name: String) throws -> [UInt8] {
    guard let file = try openFile(name, .read) else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    return bytes
  }
}

extension Store.Configuration {
  /// A tiny store without background work.
  static func fuzzing(_ mode: IOMode) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.ioMode = mode
    configuration.durability = .none
    configuration.segmentSizeBytes = 600
    configuration.compaction = .manual
    return configuration
  }
}
