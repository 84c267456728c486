import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// The directory of an earlier writer is renamed when a follower takes its place.
@Suite(.timeLimit(.minutes(10))) struct SharedBranchTests {
  @Test func storeThatProgramsShareIsNotRenamed() async throws {
    let directory = try TestDirectory()
    let path = directory.path
    let storage = DiskStorage()
    let sharing = try Store(at: path, configuration: .shared())
    try await sharing.set([1], forKey: "a")
    let opened = try #require(try storage.openDirectory(path))
    let id = try #require(try ManifestFile.readPresent(opened)).storeID
    let error = await #expect(throws: StoreError.self) {
      _ = try await FollowerFiles.keepAsBranch(path, of: id, on: storage)
    }
    #expect(error?.code == .locked, "\(String(describing: error))")
    try await sharing.set([2], forKey: "a")
    try await sharing.close()
    let branch = try #require(try await FollowerFiles.keepAsBranch(path, of: id, on: storage))
    #expect(branch.lastComponent?.string == "store.branch-1")
    let kept = try Store(at: branch, configuration: .shared())
    #expect(try await kept.value(forKey: "a") == [2])
    try await kept.close()
  }
}
