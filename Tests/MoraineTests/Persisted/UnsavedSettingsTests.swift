import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import Moraine

/// Settings that could not be saved are saved later, in their order.
@Suite(.timeLimit(.minutes(10))) struct UnsavedSettingsTests {
  /// Sets a value while the store is suspended. The only property and the only handle end here.
  private func setWhileSuspended(_ keyspace: Keyspace) async throws {
    let settings = try await PersistedStore(keyspace)
    @Persisted("x", in: settings) var x = 0
    try await keyspace.store.suspend()
    x = 1
    let error = await #expect(throws: StoreError.self) { try await $x.save() }
    #expect(error?.code == .suspended)
  }

  /// Regression: the value was gone with the property, and no error was reported.
  @Test func settingThatCouldNotBeSavedOutlivesItsProperty() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "settings")
    try await setWhileSuspended(keyspace)
    try await store.resume()
    let settings = try await PersistedStore(keyspace)
    let other = Persisted(wrappedValue: 0, "y", in: settings)
    other.wrappedValue = 2
    try await settings.save()
    #expect(try await keyspace.value(forKey: "x") == Array("1".utf8))
    #expect(try await keyspace.value(forKey: "y") == Array("2".utf8))
    try await store.close()
  }

  @Test func settingsAreReleasedWhenTheyAreSaved() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "settings")
    try await setWhileSuspended(keyspace)
    weak var space: PersistedSpace?
    space = try await PersistedStore(keyspace).space
    #expect(space != nil)
    try await store.resume()
    try await PersistedStore(keyspace).save()
    #expect(try await keyspace.value(forKey: "x") == Array("1".utf8))
    // The task that has written the setting ends a little later.
    while space != nil { await Task.yield() }
    try await store.close()
  }

  /// Returns the space of a value that was set after its store was closed.
  private func setAfterClosing(_ keyspace: Keyspace) async throws -> PersistedSpace {
    let settings = try await PersistedStore(keyspace)
    @Persisted("x", in: settings) var x = 0
    try await keyspace.store.close()
    x = 1
    let error = await #expect(throws: StoreError.self) { try await $x.save() }
    #expect(error?.code == .closed)
    return settings.space
  }

  /// A store that was given as a keyspace is not opened again, so the value can never be saved.
  @Test func settingsOfAGivenStoreThatIsClosedAreReleased() async throws {
    let keyspace = try Store.inMemory().keyspace(named: "settings")
    weak var space: PersistedSpace?
    space = try await setAfterClosing(keyspace)
    // The task that has tried to write the setting ends a little later.
    while space != nil { await Task.yield() }
  }

  /// Regression: each attempt that failed reversed the order.
  @Test func settingsThatCouldNotBeSavedKeepTheirOrder() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "settings")
    let settings = try await PersistedStore(keyspace)
    let keys: [Key] = ["c", "a", "d", "b"]
    try await store.suspend()
    for name in ["c", "a", "d", "b"] {
      let setting = Persisted(wrappedValue: 0, name, in: settings)
      setting.wrappedValue = 1
    }
    for _ in 0..<3 {
      try await settings.space.attempt()
      let pending = settings.space.state.withLock { $0.queue.pending.map(\.key) }
      #expect(pending == keys)
    }
    try await store.resume()
    try await settings.save()
    let entries = try await keyspace.contents().entries
    #expect(entries.map(\.key) == keys)
    try await store.close()
  }

  /// Regression: beside a setting that was too large, each one was written alone, also after a
  /// full disk had refused an earlier one. An ordered keyspace finds the key too long only when it
  /// commits the batch.
  @Test(arguments: [false, true])
  func settingIsNotSavedWithoutThoseThatWereSetBefore(isOrdered: Bool) async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.ioMode = .positional
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let keyspace =
      if isOrdered {
        try store.orderedKeyspace(named: "settings")
      } else {
        try store.keyspace(named: "settings")
      }
    try await keyspace.set([1], forKey: "0")
    let settings = try await PersistedStore(keyspace)
    let one = Persisted(wrappedValue: 0, "1", in: settings)
    let two = Persisted(wrappedValue: 0, "2", in: settings)
    let longName = String(repeating: "x", count: isOrdered ? 600 : 70_000)
    let long = Persisted(wrappedValue: 0, longName, in: settings)
    storage.setScript { event in
      event.operation == .write && event.file.hasSuffix(".segment") ? .fail(.noSpace) : nil
    }
    for setting in [one, two, long] { setting.wrappedValue = 1 }
    try await settings.space.attempt()
    #expect(one.projectedValue.error?.code == .noSpace)
    #expect(two.projectedValue.error?.code == .noSpace)
    // Now all three are kept, so they are one attempt.
    let writes = Mutex(0)
    storage.setScript { event in
      guard event.operation == .write, event.file.hasSuffix(".segment") else { return nil }
      return writes.withLock { count -> StorageFault? in
        count += 1
        return count == 1 ? .fail(.noSpace) : nil
      }
    }
    try await settings.space.attempt()
    #expect(writes.withLock { $0 } > 0)
    #expect(try await keyspace.value(forKey: "1") == nil)
    #expect(try await keyspace.value(forKey: "2") == nil)
    storage.setScript(nil)
    try await settings.space.attempt()
    #expect(one.projectedValue.error == nil)
    #expect(two.projectedValue.error == nil)
    #expect(long.projectedValue.error?.code == .keyTooLarge)
    let keys = try await keyspace.contents().entries.map(\.key)
    #expect(keys == ["0", "1", "2"])
    // The end of the process need not report it.
    long.projectedValue.reset()
    try await settings.space.attempt()
    try await store.close()
  }
}
