import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Cursors of the archived store's changes at a follower, and after the follower is promoted.
@Suite(.timeLimit(.minutes(5))) struct FollowedCursorTests {
  private func write(_ numbers: Range<Int>, to store: Store) async throws {
    for number in numbers { try await store.set([1], forKey: Key("\(number)")) }
  }

  /// Returns the cursor of the first change of a key.
  private func cursor(of key: Key, in store: Store) async throws -> ChangeCursor {
    var iterator = store.changes(after: .none).makeAsyncIterator()
    while true {
      let change = try #require(try await iterator.next())
      if change.key == key { return change.cursor }
    }
  }

  private func expect(_ key: Key, after cursor: ChangeCursor, in store: Store) async throws {
    var changes = store.changes(since: cursor).makeAsyncIterator()
    #expect(try await changes.next()?.key == key)
  }

  private func expectDivergence(of cursor: ChangeCursor, in store: Store) async {
    var changes = store.changes(since: cursor).makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { _ = try await changes.next() }
    #expect(error?.code == .cursorDiverged)
  }

  @Test func aCursorIsValidInEachStoreThatHasItsChange() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await write(0..<10, to: store)
    let first = try await cursor(of: "4", in: store)
    try await writer.flush()
    let follower = try await bench.follower()
    let other = try await bench.follower("other")
    try await expect("5", after: first, in: follower.store)
    let (promoted, next) = try await follower.promote()
    try await expect("5", after: first, in: promoted)
    try await write(10..<20, to: promoted)
    let second = try await cursor(of: "14", in: promoted)
    try await next.flush()
    try await other.catchUp()
    _ = try await bench.archive().restore(to: "restored", at: .latest, on: bench.storage)
    let restored = try bench.store("restored")
    for each in [other.store, restored] {
      try await expect("5", after: first, in: each)
      try await expect("15", after: second, in: each)
    }
    try await restored.close()
    try await other.close()
    try await next.detach()
    try await promoted.close()
    await writer.abandon()
    try await store.close()
  }

  /// Regression: a follower did not know what its store had lost in a power failure before the
  /// archive's whole copy, and did not know it when it was promoted.
  @Test func aFollowerRefusesACursorOfChangesThatItsStoreLost() async throws {
    let bench = ArchiveBench()
    var configuration = Store.Configuration()
    (configuration.compaction, configuration.durability) = (.manual, .none)
    // A sync of an idle store would save the write that is to be lost.
    configuration.idleInterval = .seconds(1_000_000)
    let disk = SimulatedDisk()
    let before = try disk.openStore(configuration: configuration)
    try await before.set([1], forKey: "kept", durability: .sync)
    try await before.set([1], forKey: "lost")
    let (kept, lost) = (
      try await cursor(of: "kept", in: before), try await cursor(of: "lost", in: before)
    )
    let store = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    try await write(0..<10, to: store)
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    await expectDivergence(of: lost, in: follower.store)
    try await expect("0", after: kept, in: follower.store)
    let (promoted, next) = try await follower.promote()
    await expectDivergence(of: lost, in: promoted)
    try await expect("0", after: kept, in: promoted)
    try await next.detach()
    try await promoted.close()
    await writer.abandon()
    for store in [store, before] { try await store.close() }
  }
}
