import MoraineFormat
import Testing

@testable import MoraineEngine

/// A keyspace on its own: borrowing, following, comparing, and the limit of keyspaces.
@Suite(.timeLimit(.minutes(10))) struct KeyspaceValueTests {
  @Test func valuesAreBorrowed() async throws {
    let store = Store.inMemory()
    let users = try store.keyspace(named: "users")
    #expect(try await users.withValue(forKey: "a") { $0.byteCount } == nil)
    let compressible = [UInt8](repeating: 7, count: 1000)
    try await users.set([1, 2, 3], forKey: "a")
    try await users.set(compressible, forKey: "b")
    try await store.set([9], forKey: "a")
    #expect(try await users.withValue(forKey: "a") { $0.byteCount } == 3)
    let last = try await users.withValue(forKey: "b") {
      $0.unsafeLoad(fromByteOffset: 999, as: UInt8.self)
    }
    #expect(last == 7)
    #expect(try await users.withValue(forKey: "none") { $0.byteCount } == nil)
    try await store.close()
  }

  @Test func valueSequenceFollowsOnlyItsKeyspace() async throws {
    let store = Store.inMemory()
    let users = try store.keyspace(named: "users")
    var values = users.values(forKey: "a").makeAsyncIterator()
    #expect(try await values.next() == .some(nil))
    try await store.set([9], forKey: "a")
    try await users.set([1], forKey: "a")
    #expect(try await values.next() == .some([1]))
    try await store.close()
    #expect(try await values.next() == nil)
  }

  @Test func aCancelledTaskHasNoMoreValues() async throws {
    let store = Store.inMemory()
    let task = Task {
      var values = store.values(forKey: "a").makeAsyncIterator()
      var seen: [[UInt8]?] = []
      while let value = try await values.next() { seen.append(value) }
      return seen
    }
    while await store.watcherCount == 0 { await Task.yield() }
    task.cancel()
    #expect(try await task.value == [nil])
    try await store.close()
  }

  @Test func keyspacesWithTheSameNameAndStoreAreEqual() throws {
    let (one, other) = (Store.inMemory(), Store.inMemory())
    let users = try one.keyspace(named: "users")
    let keyspaces: Set = [
      users, try one.keyspace(named: "users"), try one.keyspace(named: ""),
      try other.keyspace(named: "users"),
    ]
    #expect(keyspaces.count == 3 && keyspaces.contains(users))
  }

  @Test func keyspacePastTheLimitIsAnError() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "a")
    await store.useUpKeyspaces()
    let error = await #expect(throws: StoreError.self) {
      try await store.keyspace(named: "one more").set([1], forKey: "a")
    }
    #expect(error?.code == .limitExceeded)
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }
}

extension Store {
  /// Lists the last keyspace that a store can have.
  fileprivate func useUpKeyspaces() {
    engine!.log.manifest.keyspaces.append(
      Manifest.Keyspace(id: UInt16(Keyspace.limit), index: 0, name: "the last"))
  }
}
