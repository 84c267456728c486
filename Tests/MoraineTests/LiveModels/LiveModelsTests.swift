import Foundation
import MoraineEngine
import MoraineTesting
import Testing

@testable import Moraine

/// A view shows the contents of the repository.
@MainActor
@Suite(.timeLimit(.minutes(10))) struct LiveModelsTests {
  @Test func liveModelsLoadAndFollowChanges() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a"), Note(id: 2, text: "b")])
    let live = LiveModels(notes)
    #expect(live.models == [])
    guard case .loading = live.phase else {
      Issue.record("it is \(live.phase)")
      return
    }
    await observed { live.models.count == 2 }
    guard case .loaded = live.phase else {
      Issue.record("it is \(live.phase)")
      return
    }
    let other = try LocalRepository<Note>(in: notes.keyspace.store, named: "")
    try await other.save(Note(id: 3, text: "c"))
    await observed { live.models.map(\.id) == [1, 2, 3] }
    try await other.save(Note(id: 1, text: "again"))
    await observed { live.models.map(\.id) == [2, 3, 1] }
    try await other.delete(2)
    await observed { live.models.map(\.text) == ["c", "again"] }
  }

  /// A few changes at a time and many, with and without an order and a filter.
  @Test(arguments: 0..<8 as Range<UInt64>)
  func liveModelsEqualLoadAllAfterAnyChanges(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let notes = try LocalRepository<Note>(in: Store.inMemory(), named: "notes")
    for id in 0..<50 { try await notes.save(Note(id: id, text: "\(random.next() % 10)")) }
    let plain = LiveModels(notes)
    let sorted = LiveModels(notes, sortedBy: { $0.text < $1.text })
    let some = LiveModels(notes, where: { $0.id % 3 == 0 }, sortedBy: { $0.id > $1.id })
    for round in 0..<12 {
      for _ in 0..<(round % 3 == 0 ? 60 : Int(random.next() % 5)) {
        let id = Int(random.next() % 80)
        if random.next() % 4 == 0 {
          try await notes.delete(id)
        } else {
          try await notes.save(Note(id: id, text: "\(random.next() % 10)"))
        }
      }
      let all = try await notes.loadAll()
      await observed { plain.models == all }
      await observed { sorted.models == all.sorted { $0.text < $1.text } }
      await observed {
        some.models == all.filter { $0.id % 3 == 0 }.sorted { $0.id > $1.id }
      }
    }
  }

  /// The object waits for changes when its last owner has released it; the wait must not keep it
  /// alive.
  @Test func liveModelsAreReleasedWithTheirLastReference() async throws {
    let notes = LocalRepository<Note>.inMemory()
    let store = notes.keyspace.store
    try await notes.save(Note(id: 1, text: "a"))
    weak var gone: LiveModels<Note>?
    do {
      let live = LiveModels(notes)
      gone = live
      await observed { live.models.count == 1 }
      while await store.watcherCount == 0 { await Task.yield() }
    }
    while gone != nil { await Task.yield() }
    while await store.watcherCount > 0 { await Task.yield() }
  }

  @Test func unreadableModelIsLeftOutAndNamed() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    try await notes.save(Note(id: 2, text: "b"))
    try await notes.keyspace.set(Array("nonsense".utf8), forKey: "2")
    let live = LiveModels(notes)
    await observed { failure(live)?.code == .decodingFailed }
    #expect(failure(live)?.message.contains("'2'") == true)
    #expect(live.models.map(\.id) == [1])
    try await notes.save(Note(id: 3, text: "c"))
    await observed { live.models.map(\.id) == [1, 3] }
    #expect(
      failure(live)?.code == .decodingFailed, "the other models follow, and the failure stays")
    try await notes.save(Note(id: 2, text: "sound"))
    await observed { live.models.map(\.id) == [1, 3, 2] }
    #expect(failure(live) == nil)
    try await notes.keyspace.set(Array("again".utf8), forKey: "3")
    await observed { failure(live) != nil }
    #expect(live.models.map(\.id) == [1, 2])
    try await notes.delete(3)
    await observed { failure(live) == nil }
  }

  @Test func unreadableModelOfAQueryIsLeftOutAndNamed() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    try await notes.keyspace.set(Array("nonsense".utf8), forKey: "2")
    let live = LiveModels(notes.query().sorted(by: \.text))
    await observed { failure(live)?.code == .decodingFailed }
    #expect(failure(live)?.message.contains("'2'") == true)
    #expect(live.models.map(\.id) == [1])
    try await notes.save(Note(id: 3, text: "c"))
    await observed { live.models.map(\.id) == [1, 3] }
    #expect(failure(live)?.code == .decodingFailed)
    try await notes.save(Note(id: 2, text: "b"))
    await observed { live.models.map(\.id) == [1, 2, 3] }
    #expect(failure(live) == nil)
    try await notes.keyspace.set(Array("again".utf8), forKey: "3")
    await observed { failure(live) != nil }
    #expect(live.models.map(\.id) == [1, 2])
    try await notes.delete(3)
    await observed { failure(live) == nil }
  }

  @Test func closedStoreIsAFailureAndLiveModelsCanRestart() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    let live = LiveModels(notes)
    await observed { live.models.count == 1 }
    live.restart()
    live.restart()
    #expect(live.models.count == 1, "the old models stay until the new ones are loaded")
    try await notes.save(Note(id: 2, text: "b"))
    await observed { live.models.count == 2 }
    try await notes.keyspace.store.close()
    await observed { failure(live)?.code == .closed }
    #expect(live.models.count == 2)
    live.restart()
    await observed { failure(live)?.code == .closed }
  }

  /// The error of a model that is left out must not hide that no change is followed any more.
  @Test func closedStoreIsAFailureAlsoAfterAnUnreadableModelOfAQuery() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    try await notes.keyspace.set(Array("nonsense".utf8), forKey: "2")
    let live = LiveModels(notes.query().sorted(by: \.text))
    await observed { failure(live)?.code == .decodingFailed }
    try await notes.keyspace.store.close()
    await observed { failure(live)?.code == .closed }
    #expect(live.models.map(\.id) == [1])
  }

  @Test func liveModelsOfASuspendedStoreLoadWhenItIsResumed() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    try await notes.save(Note(id: 2, text: "b"))
    let store = notes.keyspace.store
    try await store.suspend()
    let live = LiveModels(notes)
    while await store.watcherCount == 0, failure(live) == nil { await Task.yield() }
    try #require(failure(live) == nil)
    try await store.resume()
    await observed { live.models.map(\.id) == [1, 2] }
    try await store.close()
  }

  /// The models that a repository was created with are stored by the first operation that can.
  @Test func suspensionDoesNotLoseTheModelsOfANewRepository() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    let store = notes.keyspace.store
    try await store.suspend()
    let live = LiveModels(notes)
    while await store.watcherCount == 0, failure(live) == nil { await Task.yield() }
    try #require(failure(live) == nil)
    try await store.resume()
    let found = try await notes.find(by: 1)
    #expect(found == Note(id: 1, text: "a"))
    await observed { live.models.map(\.id) == [1] }
    #expect(try await notes.count() == 1)
    try await store.close()
  }

  /// After a pause in which deletes were removed from the log, the object loads everything again.
  @Test func expiredFeedBeginsAgain() async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 500
    configuration.compaction = .manual
    let notes = try LocalRepository<Note>(
      in: Store.inMemory(configuration: configuration), named: "")
    let store = notes.keyspace.store
    store.waitForIteratorsNever()
    for id in 0..<20 { try await notes.save(Note(id: id, text: "a")) }
    let source = LiveSource(notes, filter: nil, order: nil)
    guard case .contents(let first) = await source.next() else {
      Issue.record("no contents")
      return
    }
    #expect(first.models.count == 20)
    for id in 0..<10 { try await notes.delete(id) }
    for number in 0..<3 {
      _ = try await store.compact()
      try await notes.save(Note(id: 100, text: "\(number)"))
    }
    guard case .contents(let second) = await source.next() else {
      Issue.record("the source continued although changes are missing")
      return
    }
    #expect(try await second.models == notes.loadAll())
  }

  private func failure(_ live: LiveModels<Note>) -> StoreError? {
    if case .failed(let error) = live.phase { error } else { nil }
  }
}
