import Foundation
import MoraineFormat
import SystemPackage
import Testing

@testable import MoraineEngine

/// A log with a key that is too long for the tree of its keyspace: the log of a copy whose keyspace
/// became ordered, or a forged one.
@Suite struct StrayKeyTests {
  private static let long = Key([UInt8](repeating: 7, count: 600))

  /// Returns a store whose manifest says that a keyspace is ordered, and whose log has a long key.
  private static func directory(deletes: Bool) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .hashed(segmentSizeBytes: 4096))
    let keyspace = try store.keyspace(named: "k")
    try await keyspace.set([1], forKey: "a")
    try await keyspace.set([2], forKey: long)
    try await keyspace.set([3], forKey: long)
    if deletes { try await keyspace.removeValue(forKey: long) }
    try await keyspace.set([4], forKey: "b")
    try await store.close()
    let url = URL(fileURLWithPath: directory.path.string).appendingPathComponent(Manifest.fileName)
    var manifest = try [UInt8](Data(contentsOf: url)).withUnsafeBytes { try Manifest(decoding: $0) }
    manifest.order(try #require(manifest.keyspaces.first { $0.name == "k" }?.id))
    try Data(manifest.encoded()).write(to: url)
    return directory
  }

  @Test func logWithADeletedLongKeyIsReplayed() async throws {
    let directory = try await Self.directory(deletes: true)
    for _ in 0..<2 {
      let store = try Store(at: directory.path, configuration: .hashed(segmentSizeBytes: 4096))
      let keyspace = try store.orderedKeyspace(named: "k")
      #expect(try await keyspace.keys(limit: 9) == ["a", "b"])
      #expect(try await keyspace.value(forKey: Self.long) == nil)
      #expect(try await store.verify().isSound)
      try await keyspace.set([5], forKey: "a")
      try await store.compact()
      #expect(try await store.verify().isSound)
      #expect(try await keyspace.keys(limit: 9) == ["a", "b"])
      try await store.close()
    }
  }

  @Test func liveKeyThatNoTreeCanHoldIsRefused() async throws {
    let directory = try await Self.directory(deletes: false)
    var error: StoreError?
    do throws(StoreError) {
      let store = try Store(at: directory.path, configuration: .hashed(segmentSizeBytes: 4096))
      _ = try await store.count()
    } catch let caught {
      error = caught
    }
    #expect(error?.code == .corrupted)
    #expect(
      error?.message.contains("too long for their ordered keyspace") == true, "\(error as Any)")
  }
}
