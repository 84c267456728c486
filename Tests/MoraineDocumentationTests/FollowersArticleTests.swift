import Foundation
import Moraine
import MoraineArchive
import SystemPackage
import Testing

/// The code of the article Followers and failover.
@Suite struct FollowersArticleTests {
  @Test func followersAndFailover() async throws {
    let ground = try Ground()
    let root = FilePath(ground.folder.path)
    let objects = DirectoryObjectStore(root.appending("nas").string)
    try await objects.createRoot()
    let writing = try Store(at: root.appending("users.moraine"))
    let sequence = try await writing.set([1], forKey: "theme")
    let first = try await Archive.open(objects, at: .root, createIfMissingFor: writing)
      .attach(writing)
    try await first.flush()
    try await Self.follow(objects, root, sequence)
    try await Self.replicate(writing, sequence)
    try await Self.promote(objects, root)
    _ = await #expect(throws: ArchiveError.self) { try await first.detach() }
    try await writing.close()
    try await Self.rejoin(objects, root)
  }

  private func onAServer(
    _ objects: DirectoryObjectStore, sequence: SequenceNumber
  ) async throws {
    let archive = try await Archive.open(objects, at: .root)
    let follower = try await archive.follow(in: "/data/replica.moraine")

    let value = try await follower.store.value(forKey: "theme")
    print(follower.freshness.sequence, follower.freshness.position)
    // "Read your own write" on another machine.
    try await follower.waitFor(sequence)
    print(value as Any)
  }

  /// The code of the comment on ``Follower``.
  private func inTheComment(_ archive: Archive) async throws {
    let follower = try await archive.follow(in: "/var/lib/replica")
    let users = try follower.store.keyspace(named: "users")
    let value = try await users.value(forKey: "ada")
    print(follower.freshness.sequence)
    print(value as Any)
  }

  private func onTheOtherServer(_ archive: Archive) async throws {
    let (follower, branch) = try await archive.rejoin(in: "/data/users.moraine")
    print(follower, branch as Any)
  }

  private static func follow(
    _ objects: DirectoryObjectStore, _ root: FilePath, _ sequence: SequenceNumber
  ) async throws {
    let archive = try await Archive.open(objects, at: .root)
    let follower = try await archive.follow(in: root.appending("replica.moraine"))

    let value = try await follower.store.value(forKey: "theme")
    print(follower.freshness.sequence, follower.freshness.position)
    // "Read your own write" on another machine.
    try await follower.waitFor(sequence)
    #expect(value == [1])
    try await follower.close()
  }

  private static func replicate(_ store: Store, _ sequence: SequenceNumber) async throws {
    try await store.set([1], forKey: "order", durability: .replicated)
    try await store.waitUntilReplicated(sequence)
    print(store.replicatedSequence)
  }

  private static func promote(_ objects: DirectoryObjectStore, _ root: FilePath) async throws {
    let follower = try await Archive.open(objects, at: .root)
      .follow(in: root.appending("replica.moraine"))
    let (store, writer) = try await follower.promote()
    try await store.set([1], forKey: "theme")
    try await writer.flush()
    #expect(try await store.value(forKey: "order") == [1])
    try await writer.detach()
    try await store.close()
  }

  private static func rejoin(_ objects: DirectoryObjectStore, _ root: FilePath) async throws {
    let archive = try await Archive.open(objects, at: .root)
    let (follower, branch) = try await archive.rejoin(in: root.appending("users.moraine"))
    #expect(branch?.lastComponent?.string == "users.moraine.branch-1")
    #expect(try await follower.store.value(forKey: "order") == [1])
    try await follower.close()
  }
}
