import Foundation
import Moraine
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

enum Theme: String, Codable, Sendable { case light, dark, sepia }

extension PersistedKey where Value == Theme {
  static var theme: Self { Self("theme", default: .light) }
}

/// A value that was set exists for every instance, and in the next run.
@Suite(.timeLimit(.minutes(10))) struct PersistedTests {
  private struct Settings {
    @Persisted var theme: Theme
    @Persisted var launches: Int

    init(_ store: PersistedStore) {
      _theme = Persisted(.theme, in: store)
      _launches = Persisted(wrappedValue: 0, "launches", in: store)
    }
  }

  private final class Model {
    @Persisted var theme: Theme
    init(_ store: PersistedStore) { _theme = Persisted(.theme, in: store) }
  }

  @Test func valueExistsInTheNextRun() async throws {
    let folder = try Folder()
    for run in 0..<3 {
      let store = try PersistedStore(directory: folder.url)
      @Persisted("name", in: store) var name: String? = nil
      let settings = Settings(store)
      #expect(settings.launches == run)
      #expect(settings.theme == (run == 0 ? .light : .dark))
      #expect(name == (run == 0 ? nil : "run \(run - 1)"))
      settings.launches += 1
      settings.theme = .dark
      name = "run \(run)"
      try await $name.save()
      #expect($name.error == nil)
      try await store.close()
    }
    let store = try Store(at: .init(folder.url.appendingPathComponent("settings.moraine").path))
    #expect(try await store.value(forKey: "theme") == Array(#""dark""#.utf8))
    #expect(try await store.value(forKey: "launches") == Array("3".utf8))
    try await store.close()
  }

  @Test func allInstancesAgreeAtOnce() async throws {
    let store = PersistedStore.inMemory()
    let (settings, model) = (Settings(store), Model(store))
    let again = try await PersistedStore(try #require(store.keyspace))
    for round in 0..<100 {
      let theme = [Theme.light, .dark, .sepia][round % 3]
      if round % 2 == 0 { settings.theme = theme } else { model.theme = theme }
      #expect(settings.theme == theme)
      #expect(model.theme == theme)
      #expect(Settings(store).theme == theme, "also an instance that is created now")
      #expect(Persisted(.theme, in: again).wrappedValue == theme)
    }
  }

  @Test func twoStoresOfTheSameDirectoryAreTheSameStore() async throws {
    let folder = try Folder()
    let one = try PersistedStore(directory: folder.url)
    let other = try PersistedStore(directory: folder.url)
    Settings(one).theme = .sepia
    #expect(Settings(other).theme == .sepia)
    try await one.close()
    let again = try PersistedStore(directory: folder.url)
    #expect(Settings(again).theme == .sepia)
    try await again.close()
  }

  /// The same holds for the keyspace: opening the place again returns an open store.
  @Test func settingsThatWereClosedByTheirStoreAreOpenedAgain() async throws {
    let folder = try Folder()
    for round in 0..<3 {
      let store = try PersistedStore(directory: folder.url)
      let settings = Settings(store)
      #expect(settings.launches == round)
      settings.launches += 1
      try await store.save()
      try await store.keyspace?.store.close()
      settings.launches += 10
      let error = await #expect(throws: StoreError.self) { try await settings.$launches.save() }
      #expect(error?.code == .closed)
    }
  }

  /// A value in use continues with the store that exists at the place.
  @Test func reloadOpensAStoreThatWasClosed() async throws {
    let folder = try Folder()
    let store = try PersistedStore(directory: folder.url)
    let settings = Settings(store)
    settings.theme = .dark
    try await store.close()
    let path = folder.url.appendingPathComponent("settings.moraine").path
    try await withStore(at: .init(path)) { store in
      try await store.set(Array("7".utf8), forKey: "launches")
    }
    try await settings.$theme.reload()
    #expect(settings.theme == .dark)
    #expect(settings.launches == 7, "all settings of the store")
    settings.theme = .sepia
    try await settings.$theme.save()
    let again = try PersistedStore(directory: folder.url)
    #expect(Settings(again).theme == .sepia)
    try await again.close()
  }

  /// Only the store itself knows its contents then, and asking it takes an `await`.
  @Test func storeThatIsOpenForAnotherUseIsAwaited() async throws {
    let folder = try Folder()
    let notes = try LocalRepository<Note>(directory: folder.url, filename: "app")
    let error = #expect(throws: StoreError.self) {
      try PersistedStore(directory: folder.url, filename: "app")
    }
    #expect(error?.code == .locked)
    try await notes.keyspace.store.set(Array(#""dark""#.utf8), forKey: "theme")
    let store = try await PersistedStore(notes.keyspace)
    #expect(Settings(store).theme == .dark)
    let again = try PersistedStore(directory: folder.url, filename: "app")
    Settings(again).theme = .sepia
    #expect(Settings(store).theme == .sepia)
  }

  /// Whichever writer sets the key, the value arrives.
  @Test func writesThroughTheKeyspaceArrive() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    @Persisted(.theme, in: store) var theme
    var values = $theme.values.makeAsyncIterator()
    #expect(await values.next() == .light)
    try await keyspace.set(Array(#""dark""#.utf8), forKey: "theme")
    #expect(await values.next() == .dark)
    #expect(theme == .dark)
    try await keyspace.removeValue(forKey: "theme")
    #expect(await values.next() == .light)
    // Includes a value that arrives before any instance uses the key.
    try await keyspace.set(Array("7".utf8), forKey: "launches")
    try await keyspace.set(Array(#""sepia""#.utf8), forKey: "theme")
    #expect(await values.next() == .sepia)
    #expect(Settings(store).launches == 7)
  }

  /// Two stores of one place behave to each other as two processes do.
  @Test func writesOfAnotherProcessArrive() async throws {
    let folder = try Folder()
    let store = try PersistedStore(directory: folder.url)
    let notes = try LocalRepository<Note>(in: #require(store.keyspace?.store), named: "notes")
    @Persisted(.theme, in: store) var theme
    var values = $theme.values.makeAsyncIterator()
    #expect(await values.next() == .light)
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    let path = folder.url.appendingPathComponent("settings.moraine").path
    let other = try Store(at: FilePath(path), configuration: configuration)
    try await other.set(Array(#""dark""#.utf8), forKey: "theme")
    #expect(await values.next() == .dark)
    let live = await LiveModels(notes)
    try await LocalRepository<Note>(in: other, named: "notes").save(Note(id: 1, text: "a"))
    await observed { live.models == [Note(id: 1, text: "a")] }
    var streamed: [Note] = []
    for try await note in notes.models { streamed.append(note) }
    #expect(streamed == [Note(id: 1, text: "a")])
    theme = .sepia
    try await $theme.save()
    #expect(try await other.value(forKey: "theme") == Array(#""sepia""#.utf8))
    try await other.close()
    try await store.close()
  }

  @Test func slowReaderGetsOnlyTheLatestValue() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("count", in: store) var count = 0
    var values = $count.values.makeAsyncIterator()
    #expect(await values.next() == 0)
    for number in 1...1_000 { count = number }
    #expect(await values.next() == 1_000)
    let projection = $count
    let waiting = Task {
      var values = projection.values.makeAsyncIterator()
      _ = await values.next()
      return await values.next()
    }
    waiting.cancel()
    #expect(await waiting.value == nil)
  }

  @Test func withLockIsAtomic() async throws {
    let store = PersistedStore.inMemory()
    let counter = Persisted(wrappedValue: 0, "count", in: store)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask {
          for _ in 0..<500 { counter.projectedValue.withLock { $0 += 1 } }
        }
      }
    }
    #expect(counter.wrappedValue == 4_000)
    try await counter.projectedValue.save()
    #expect(try await store.keyspace?.value(forKey: "count") == Array("4000".utf8))
    let odd = counter.projectedValue.withLock { value in
      value += 1
      return value % 2 == 1
    }
    #expect(odd)
    #expect(throws: CancellationError.self) {
      try counter.projectedValue.withLock { value in
        value = 0
        throw CancellationError()
      }
    }
    #expect(counter.wrappedValue == 4_001, "a body that throws changes nothing")
  }

  /// When values are set here and stored by other writers at once, memory ends with the contents of
  /// the log.
  @Test(arguments: 0..<20 as Range<UInt64>)
  func valueInMemoryEndsEqualToTheStoredValue(seed: UInt64) async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    let values = (0..<3).map { Persisted(wrappedValue: -1, "\($0)", in: store) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<4 as Range<UInt64> {
        group.addTask {
          var random = SeededGenerator(seed: seed * 4 + task)
          for number in 0..<60 {
            let (key, value) = (Int(random.next() % 3), Int(task) * 1_000 + number)
            switch random.next() % 6 {
            case 0: try await keyspace.set(Array("\(value)".utf8), forKey: Key("\(key)"))
            case 1: try await keyspace.removeValue(forKey: Key("\(key)"))
            case 2: values[key].projectedValue.withLock { $0 = value }
            case 3: values[key].projectedValue.reset()
            case 4: try await values[key].projectedValue.save()
            default: values[key].wrappedValue = value
            }
          }
        }
      }
      try await group.waitForAll()
    }
    try await store.save()
    for (key, value) in values.enumerated() {
      let stored = try await keyspace.value(forKey: Key("\(key)"))
      let expected = stored.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? -1
      for await found in value.projectedValue.values where found == expected { break }
      #expect(value.projectedValue.error == nil, "seed \(seed)")
    }
  }
}
