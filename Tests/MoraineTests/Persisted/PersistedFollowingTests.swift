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
}
