import MoraineEngine
import Synchronization
import Testing

@testable import Moraine

/// One task at a time follows the store of the settings.
@Suite(.timeLimit(.minutes(10))) struct PersistedFollowingTests {
  /// A task may have read something before another one has replaced it.
  @Test func replacedTaskChangesNoSetting() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    let space = store.space
    @Persisted(.theme, in: store) var theme
    let old = try await keyspace.contents()
    let number = space.state.withLock { $0.followingNumber }
    try await keyspace.set(Array("7".utf8), forKey: "launches")
    try await keyspace.set(Array(#""dark""#.utf8), forKey: "theme")
    space.adopt(keyspace, try await keyspace.contents())
    space.takeAll(old, by: number)
    space.stopFollowing(number, because: StoreError(.storeReplaced, "the files were replaced"))
    #expect(theme == .dark)
    #expect($theme.error == nil)
    #expect(Persisted(wrappedValue: 0, "launches", in: store).wrappedValue == 7)
    try await keyspace.set(Array(#""sepia""#.utf8), forKey: "theme")
    for await value in $theme.values where value == .sepia { break }
    #expect($theme.error == nil)
  }

  /// The error of the task that follows counts, and a save begins another task.
  @Test func currentTaskThatFailsIsReplacedByTheNextSave() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    let space = store.space
    @Persisted(.theme, in: store) var theme
    for round in 1...20 as ClosedRange<UInt64> {
      let number = space.state.withLock { $0.followingNumber }
      #expect(number == round)
      space.stopFollowing(number, because: StoreError(.io, "the system refuses a read"))
      #expect($theme.error?.code == .io)
      try await store.save()
      let next = round % 2 == 0 ? Theme.sepia : Theme.dark
      try await keyspace.set(Array("\"\(next.rawValue)\"".utf8), forKey: "theme")
      for await value in $theme.values where value == next { break }
      #expect($theme.error == nil)
    }
  }

  /// Regression: only the settings that existed when the following ended had its error.
  @Test func settingThatIsCreatedAfterTheEndOfTheFollowingShowsTheError() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    let space = store.space
    let number = space.state.withLock { $0.followingNumber }
    space.stopFollowing(number, because: StoreError(.io, "the system refuses a read"))
    @Persisted("launches", in: store) var launches = 0
    let projection = $launches
    #expect(projection.error?.code == .io)
    try await keyspace.set(Array("7".utf8), forKey: "launches")
    try await store.save()
    for await value in projection.values where value == 7 { break }
    #expect(projection.error == nil)
    #expect(launches == 7)
    launches = 8
    try await projection.save()
    #expect(projection.error == nil)
  }

  /// Regression: of several settings that one batch had saved, only the last one lost an error that
  /// was over.
  @Test func errorThatIsOverEndsForEachSettingOfABatch() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    let space = store.space
    @Persisted("one", in: store) var one = 0
    @Persisted("two", in: store) var two = 0
    @Persisted("three", in: store) var three = 0
    try await keyspace.store.suspend()
    one = 1
    two = 2
    await #expect(throws: StoreError.self) { try await store.save() }
    try await keyspace.store.resume()
    // Both are kept, so they are one batch.
    try await store.save()
    // What the store has given so far was taken when the second value comes.
    for next in [5, 6] {
      try await keyspace.set(Array("\(next)".utf8), forKey: "three")
      for await value in $three.values where value == next { break }
    }
    let number = space.state.withLock { $0.followingNumber }
    space.stopFollowing(number, because: StoreError(.io, "the system refuses a read"))
    #expect($one.error?.code == .io)
    #expect($two.error?.code == .io)
    try await store.save()
    // The second value comes after all settings were read.
    for next in [7, 8] {
      try await keyspace.set(Array("\(next)".utf8), forKey: "three")
      for await value in $three.values where value == next { break }
    }
    #expect($one.error == nil)
    #expect($two.error == nil)
    #expect(one == 1)
    #expect(two == 2)
    #expect(three == 8)
  }

  /// Regression: each deleted key that no property of the program used stayed in memory.
  @Test func deletedKeysWithoutAPropertyAreForgotten() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    @Persisted("last", in: store) var last = 0
    for number in 1...100 {
      try await keyspace.set(Array("1".utf8), forKey: "other \(number)")
      try await keyspace.removeValue(forKey: "other \(number)")
    }
    try await keyspace.set(Array("1".utf8), forKey: "kept")
    try await keyspace.set(Array("7".utf8), forKey: "last")
    for await value in $last.values where value == 7 { break }
    #expect(store.space.state.withLock { $0.stored.count } == 1)
    #expect(last == 7)
  }
}
