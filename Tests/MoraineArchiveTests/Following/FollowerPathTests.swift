import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineArchive

/// A follower opens its directory again after a whole copy: a relative path may lead elsewhere then.
@Suite(.timeLimit(.minutes(1))) struct FollowerPathTests {
  @Test func followerKeepsItsDirectoryWhenTheCurrentOneChanges() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-follower-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let depth = FilePath(FileManager.default.currentDirectoryPath).components.count
    let relative = FilePath(String(repeating: "../", count: depth) + folder.path.dropFirst())
      .appending("follower")
    #expect(!relative.isAbsolute)
    let follower = try await bench.archive().follow(
      in: relative, on: DiskStorage(), configuration: Store.Configuration(), polls: false)
    #expect(await follower.path.isAbsolute)
    #expect(try await follower.store.contents() == ["a": [1]])
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }
}
