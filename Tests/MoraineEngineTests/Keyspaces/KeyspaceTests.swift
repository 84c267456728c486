import MoraineEngine
import MoraineTesting
import Testing

/// One log with several sets of keys.
@Suite struct KeyspaceTests {
  static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  @Test(arguments: modes)
  func sameKeyIsIndependentInEachKeyspace(mode: Store.Configuration.IOMode) async throws {
    let disk = SimulatedDisk()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 600, ioMode: mode)
    var store = try disk.openStore(configuration: configuration)
    for name in ["", "users", "settings"] {
      let keyspace = try store.keyspace(named: name)
      #expect(try await keyspace.value(forKey: "a") == nil)
      for number in 0..<10 {
        try await keyspace.set(Array("\(name) \(number)".utf8), forKey: "\(number)")
      }
    }
    try await store.keyspace(named: "users").removeValue(forKey: "3")
    for round in 0..<3 {
      let counts = try await counts(store)
      #expect(counts == ["": 10, "users": 9, "settings": 10], "round \(round)")
      #expect(try await store.keyspace(named: "users").value(forKey: "3") == nil)
      #expect(try await store.keyspace(named: "users").contains("4"))
      let value = try await store.keyspace(named: "settings").value(forKey: "3")
      #expect(value == Array("settings 3".utf8))
      #expect(try await store.value(forKey: "3") == Array(" 3".utf8))
      #expect(try await store.keyspaceNames() == ["settings", "users"])
      #expect(try await store.verify().isSound)
      if round == 0 { _ = try await store.compact() }
      try await store.close()
      store = try disk.openStore(configuration: configuration)
    }
    try await store.close()
  }

  private func counts(_ store: Store) async throws -> [String: Int] {
    var result: [String: Int] = [:]
    for name in try await store.keyspaceNames() + [""] {
      result[name] = try await store.keyspace(named: name).count()
    }
    return result
  }

  @Test func batchSpansKeyspaces() async throws {
    let store = Store.inMemory()
    let (users, settings) = (
      try store.keyspace(named: "users"), try store.keyspace(named: "settings")
    )
    try await store.write { batch in
      try batch.set([1], forKey: "a", in: users)
      #expect(try batch.value(forKey: "a", in: users) == [1])
      #expect(try batch.value(forKey: "a", in: settings) == nil)
      try batch.set([2], forKey: "a", in: settings)
      try batch.set([3], forKey: "a")
      try batch.removeValue(forKey: "a", in: users)
      #expect(try !batch.contains("a", in: users))
    }
    #expect(try await users.value(forKey: "a") == nil)
    #expect(try await settings.value(forKey: "a") == [2])
    #expect(try await store.value(forKey: "a") == [3])
    #expect(try await store.count() == 2)
  }

  /// A read creates no keyspace.
  @Test func keyspaceThatIsOnlyReadIsNotCreated() async throws {
    let store = Store.inMemory()
    let (read, written) = (
      try store.keyspace(named: "read"), try store.keyspace(named: "written")
    )
    try await read.removeValue(forKey: "a")
    try await store.write { batch in
      #expect(try !batch.contains("a", in: read))
      try batch.set([1], forKey: "a", in: written)
    }
    #expect(try await store.keyspaceNames() == ["written"])
  }

  @Test func namesHaveALimit() async throws {
    let store = Store.inMemory()
    let longest = String(repeating: "é", count: 127) + "x"
    let keyspace = try store.keyspace(named: longest)
    try await keyspace.set([1], forKey: "a")
    #expect(try await store.keyspaceNames() == [longest])
    let error = #expect(throws: StoreError.self) { _ = try store.keyspace(named: longest + "x") }
    #expect(error?.code == .keyTooLarge)
  }

  @Test func keyspacesCreatedAtOnceAllExist() async throws {
    let store = Store.inMemory()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<100 {
        group.addTask {
          try await store.keyspace(named: "k \(number % 50)").set([1], forKey: "\(number)")
        }
      }
      try await group.waitForAll()
    }
    #expect(try await store.keyspaceNames().count == 50)
    #expect(try await store.keyspace(named: "k 7").count() == 2)
    #expect(try await store.verify().isSound)
  }
}
