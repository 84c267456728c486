import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// Files that are kept for a snapshot, after the store has left its directory.
@Suite(.timeLimit(.minutes(10))) struct HeldFileTests {
  /// Regression: the end of a snapshot removed files by their names, although the store had been
  /// closed or suspended, and its directory may belong to a restored store by then.
  @Test(arguments: [true, false])
  func snapshotRemovesNoFileAfterTheStoreHasLeft(isClosed: Bool) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000, ioMode: .positional)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var model: [Key: [UInt8]] = [:]
    for number in 0..<100 { model[Key("\(number)")] = [UInt8](0..<50) }
    for (key, value) in model { try await store.set(value, forKey: key) }
    var snapshot: Store.Snapshot? = try await store.snapshot()
    for key in model.keys { try await store.removeValue(forKey: key) }
    _ = try await store.compact()
    let listed = try await store.statistics().segmentCount
    if isClosed { try await store.close() } else { try await store.suspend() }
    func segmentCount() throws -> Int {
      let directory = try #require(try storage.openDirectory("store"))
      return try directory.entries().count { $0.name.hasSuffix(".segment") }
    }
    let before = try segmentCount()
    #expect(before > listed + 2, "the files of the snapshot are kept")
    try snapshot?.check(model)
    snapshot = nil
    // Jobs run in order, also one that would remove files.
    try await store.pipeline.run { () throws(StoreError) in }
    #expect(try segmentCount() == before)
    if !isClosed { try await store.close() }
    // The next opening removes them.
    let again = try Store(on: storage, at: "store", configuration: configuration)
    let after = try segmentCount()
    #expect(try await again.statistics().segmentCount == after)
    try await again.close()
  }

  /// Regression: the end of a snapshot removed files of a store that had been released without
  /// being closed.
  @Test func snapshotRemovesNoFileOfAReleasedStore() async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000, ioMode: .positional)
    configuration.compaction = .manual
    var store: Store? = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<100 { try await store?.set([UInt8](0..<50), forKey: Key("\(number)")) }
    var snapshot: Store.Snapshot? = try await store?.snapshot()
    for number in 0..<100 { try await store?.removeValue(forKey: Key("\(number)")) }
    _ = try await store?.compact()
    try await store?.waitUntilIdle()
    let pipeline = try #require(store?.pipeline)
    let released = WeakReference(store: store)
    store = nil
    while released.store != nil { await Task.yield() }
    func segmentCount() throws -> Int {
      let directory = try #require(try storage.openDirectory("store"))
      return try directory.entries().count { $0.name.hasSuffix(".segment") }
    }
    let before = try segmentCount()
    #expect(before > 5, "the files of the snapshot are kept")
    #expect(snapshot?.count == 100)
    snapshot = nil
    // Jobs run in order, also one that would remove files.
    try await pipeline.run { () throws(StoreError) in }
    #expect(try segmentCount() == before)
  }
}

private struct WeakReference {
  weak var store: Store?
}
