import MoraineFormat
import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// An opening of a shared store that is refused changes nothing in the directory.
@Suite(.timeLimit(.minutes(10))) struct SharedRefusalTests {
  private let storage = MemoryStorage()

  private func directory(_ path: FilePath) throws -> any StorageDirectory {
    try #require(try storage.openDirectory(path))
  }

  private func names(_ path: FilePath) throws -> [String] {
    try directory(path).entries().map(\.name).sorted()
  }

  /// Makes a store, and a backup of it.
  private func makeBackup() async throws {
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    _ = try await store.backup(to: "backup", on: storage)
    try await store.close()
  }

  private func replaceManifest(_ bytes: [UInt8]) throws {
    let file = try #require(try directory("store").openFile(Manifest.fileName, .readWrite))
    try file.truncate(to: 0)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
  }

  private func expectRefusal(_ path: FilePath, _ code: StoreError.Code) throws {
    for isCopied in [false, true] {
      // A copy of the directory may lack this file.
      if isCopied { try directory(path).remove(FileName.lock) }
      let before = try names(path)
      let error = #expect(throws: StoreError.self) {
        _ = try Store(on: storage, at: path, configuration: .shared())
      }
      #expect(error?.code == code, "\(String(describing: error))")
      #expect(try names(path) == before)
    }
  }

  @Test func sharedOpeningOfABackupCreatesNoFile() async throws {
    try await makeBackup()
    try expectRefusal("backup", .readOnly)
  }

  @Test func sharedOpeningOfAFollowerCreatesNoFile() async throws {
    try await makeBackup()
    var manifest = try #require(try ManifestFile.readPresent(try directory("store")))
    manifest.following = Manifest.Following(
      archiveID: manifest.storeID, position: 1, term: 1, nonceLow: 1, nonceHigh: 1, checkpoint: 0)
    try replaceManifest(manifest.encoded())
    try expectRefusal("store", .readOnly)
  }

  @Test func sharedOpeningOfANewerFormatCreatesNoFile() async throws {
    try await makeBackup()
    let manifest = try #require(try ManifestFile.readPresent(try directory("store")))
    var body = Array(manifest.encoded().dropLast(4))
    body[8] = 99
    let checksum = Checksum.of(body)
    let sum = (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (8 * $0)) }
    try replaceManifest(body + sum)
    try expectRefusal("store", .newerFormat)
  }
}
