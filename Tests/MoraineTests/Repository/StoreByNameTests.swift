import Foundation
import Moraine
import MoraineEngine
import Synchronization
import SystemPackage
import Testing

/// All repositories that name one place share one store, and a store that was closed is opened
/// again.
@Suite(.timeLimit(.minutes(10))) struct StoreByNameTests {
  @Test func openingByNameAfterCloseGivesAStoreThatIsOpen() async throws {
    let folder = try Folder()
    let old = try LocalRepository<Note>(directory: folder.url)
    for round in 0..<3 {
      let notes = try LocalRepository<Note>(directory: folder.url)
      try await notes.save(Note(id: round, text: "\(round)"))
      try await notes.keyspace.store.close()
    }
    let error = await #expect(throws: StoreError.self) { try await old.count() }
    #expect(error?.code == .closed)
    let notes = try LocalRepository<Note>(directory: folder.url)
    #expect(try await notes.loadAll().map(\.id) == [0, 1, 2])
  }

  /// The test blocks no thread of the cooperative pool, which closing may need.
  @Test(arguments: [true, false])
  func openingByNameWaitsForTheCloseThatHasBegun(isOnAThread: Bool) async throws {
    let folder = try Folder()
    let url = folder.url
    for round in 0..<20 {
      let notes = try await LocalRepository<Note>.open(directory: url)
      try await notes.save(Note(id: round, text: "\(round)"))
      let store = notes.keyspace.store
      let closing = Task { try await store.close() }
      while !store.isOver { await Task.yield() }
      let again =
        isOnAThread
        ? try await onAThread { try LocalRepository<Note>(directory: url) }
        : try await LocalRepository<Note>.open(directory: url)
      #expect(try await again.count() == round + 1)
      try await closing.value
      try await again.keyspace.store.close()
    }
  }

  /// The same for stores without names: the program has released the store, and cannot see that the
  /// store still works.
  @Test func aStoreWaitsForTheCloseThatHasBegun() async throws {
    let folder = try Folder()
    let path = FilePath(folder.url.appendingPathComponent("store").path)
    for round in 0..<20 {
      let store = try await Store.open(at: path)
      try await store.set([UInt8(round)], forKey: Key("\(round)"))
      let closing = Task { try await store.close() }
      while !store.isOver { await Task.yield() }
      let again = try await Store.open(at: path)
      #expect(try await again.count() == round + 1)
      try await closing.value
      try await again.close()
    }
  }

  /// The reference in the registry ends before the lock is released.
  @Test func openingByNameWhileTheLastReferenceEndsIsNeverLocked() async throws {
    let folder = try Folder()
    let first = try LocalRepository<Note>(directory: folder.url)
    try await first.save(Note(id: 1, text: "here"))
    try await first.keyspace.store.close()
    let url = folder.url
    for round in 0..<500 {
      let last = LastUser(try LocalRepository<Note>(directory: url))
      last.begin()
      last.isDue.store(true, ordering: .releasing)
      for _ in 0..<(round % 8) * 20 { _ = last.isDue.load(ordering: .acquiring) }
      _ = try LocalRepository<Note>(directory: url)
      while !last.isGone.load(ordering: .acquiring) { await Task.yield() }
    }
    #expect(try await LocalRepository<Note>(directory: url).count() == 1)
  }

  /// More tasks wait than the pool has threads, and the work that they wait for needs one of those
  /// threads.
  @Test func manyTasksOpenSaveAndCloseAtOnce() async throws {
    let folder = try Folder()
    let url = folder.url
    try await withThrowingTaskGroup(of: Int.self) { group in
      for task in 0..<16 {
        group.addTask {
          var saved = 0
          for round in 0..<10 {
            let notes = try await LocalRepository<Note>.open(directory: url)
            do {
              try await notes.save(Note(id: task * 100 + round, text: ""))
              saved += 1
            } catch {
              // Another task has closed the store that all tasks share.
              guard let error = error as? StoreError, error.code == .closed else { throw error }
            }
            try await notes.keyspace.store.close()
          }
          return saved
        }
      }
      let saved = try await group.reduce(0, +)
      #expect(try await LocalRepository<Note>(directory: url).count() == saved)
    }
  }

  /// The same holds before the store's own directory exists.
  @Test func everyPathToADirectoryLeadsToOneStore() async throws {
    let folder = try Folder()
    let manager = FileManager.default
    let home = folder.url.appendingPathComponent("home")
    try manager.createDirectory(
      at: home.appendingPathComponent("inner"), withIntermediateDirectories: true)
    let link = folder.url.appendingPathComponent("link")
    try manager.createSymbolicLink(at: link, withDestinationURL: home)
    let deep = folder.url.appendingPathComponent("deep")
    try manager.createSymbolicLink(
      at: deep, withDestinationURL: home.appendingPathComponent("inner"))
    let paths = [
      home.path, home.path + "/", link.path, link.path + "/", home.path + "/./inner/..",
      deep.path + "/..",
    ]
    let urls = paths.map { URL(fileURLWithPath: $0, isDirectory: true) }
    for isThere in [false, true] {
      let first = try LocalRepository<Note>(directory: home)
      for (url, path) in zip(urls, paths) {
        let other = try LocalRepository<Note>(directory: url)
        #expect(other.keyspace.store === first.keyspace.store, "\(path), \(isThere)")
      }
      try await first.save(Note(id: 1, text: "one"))
    }
    #expect(manager.fileExists(atPath: home.appendingPathComponent("data.moraine").path))
    let settings = try urls.map { try PersistedStore(directory: $0) }
    @Persisted(.theme, in: settings[0]) var theme
    theme = .dark
    for store in settings { #expect(Persisted(.theme, in: store).wrappedValue == .dark) }
    try await settings[0].close()
  }

  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func anotherSharingThanTheStoreHasIsAnError(sharing: Store.Configuration.Sharing) async throws {
    let folder = try Folder()
    let other: Store.Configuration.Sharing = sharing == .shared ? .exclusive : .shared
    let notes = try LocalRepository<Note>(directory: folder.url, sharing: sharing)
    let error = #expect(throws: StoreError.self) {
      try LocalRepository<Note>(directory: folder.url, sharing: other)
    }
    #expect(error?.code == .locked)
    #expect(error?.message.contains("as \(sharing), not \(other);") == true)
    var configuration = Store.Configuration()
    configuration.sharing = other
    #expect(throws: StoreError.self) {
      try PersistedStore(directory: folder.url, filename: "data", configuration: configuration)
    }
    try await notes.save(Note(id: 1, text: ""))
    try await notes.keyspace.store.close()
    let again = try LocalRepository<Note>(directory: folder.url, sharing: other)
    #expect(try await again.count() == 1)
  }

  /// The directory is another one: nothing of the old store is in this place.
  @Test(arguments: [false, true])
  func openingByNameUsesTheDirectoryThatExistsNow(isMoved: Bool) async throws {
    let folder = try Folder()
    let manager = FileManager.default
    let old = try LocalRepository<Note>(directory: folder.url)
    try await old.save(Note(id: 1, text: "old"))
    let place = folder.url.appendingPathComponent("data.moraine")
    if isMoved {
      try manager.moveItem(at: place, to: folder.url.appendingPathComponent("moved"))
    } else {
      try manager.removeItem(at: place)
    }
    let new = try LocalRepository<Note>(directory: folder.url)
    #expect(new.keyspace.store !== old.keyspace.store)
    #expect(try await new.loadAll() == [])
    try await new.save(Note(id: 2, text: "new"))
    #expect(try await LocalRepository<Note>(directory: folder.url).loadAll().map(\.id) == [2])
    try await new.keyspace.store.close()
  }
}

/// Runs a blocking call.
private func onAThread<Result: Sendable>(
  _ body: @escaping @Sendable () throws -> Result
) async throws -> Result {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread {
      do { continuation.resume(returning: try body()) } catch {
        continuation.resume(throwing: error)
      }
    }
  }
}

/// Holds the only reference to a repository, on a thread of its own.
private final class LastUser: Sendable {
  let isDue = Atomic<Bool>(false)
  let isGone = Atomic<Bool>(false)
  private let repository: Mutex<LocalRepository<Note>?>

  init(_ repository: LocalRepository<Note>) { self.repository = Mutex(repository) }

  func begin() {
    Thread.detachNewThread { [self] in
      while !isDue.load(ordering: .acquiring) {}
      repository.withLock { $0 = nil }
      isGone.store(true, ordering: .releasing)
    }
  }
}

/// Answers that a closed or suspended store must not give from memory.
@Suite(.timeLimit(.minutes(10))) struct UnusableStoreTests {
  @Test(arguments: [CachePolicy.all, .bounded(models: 10), .none])
  func findThrowsAfterCloseForAModelInMemory(cache: CachePolicy) async throws {
    let store = Store.inMemory()
    let notes = try LocalRepository<Note>(in: store, named: "notes", cache: cache)
    try await notes.save(Note(id: 1, text: "one"))
    #expect(try await notes.find(by: 1)?.text == "one")
    try await store.close()
    let late = try LocalRepository<Note>(in: store, named: "late", cache: cache)
    for _ in 0..<3 {
      for repository in [notes, late] {
        let error = await #expect(throws: StoreError.self) { try await repository.find(by: 1) }
        #expect(error?.code == .closed)
      }
    }
  }

  @Test func findThrowsWhileSuspendedAndAnswersAfterResuming() async throws {
    let folder = try Folder()
    let notes = try LocalRepository<Note>(directory: folder.url, sharing: .shared, cache: .all)
    try await notes.save(Note(id: 1, text: "one"))
    for _ in 0..<2 {
      #expect(try await notes.find(by: 1)?.text == "one")
      try await notes.keyspace.store.suspend()
      for id in 1...2 {
        let error = await #expect(throws: StoreError.self) { try await notes.find(by: id) }
        #expect(error?.code == .suspended)
      }
      try await notes.keyspace.store.resume()
    }
    #expect(try await notes.find(by: 1)?.text == "one")
    try await notes.keyspace.store.close()
  }

  /// A suspended store returns no answer about a key, and in particular not that the key does not
  /// exist.
  @Test func valuesWaitWhileSuspended() async throws {
    let folder = try Folder()
    let store = try Store(at: FilePath(folder.url.appendingPathComponent("store").path))
    try await store.set([1], forKey: "k")
    var values = store.values(forKey: "k").makeAsyncIterator()
    #expect(try await values.next() == [1])
    var later = store.values(forKey: "k").makeAsyncIterator()
    try await store.suspend()
    let resuming = Task {
      while await store.watcherCount == 0 { await Task.yield() }
      try await store.resume()
      try await store.set([2], forKey: "k")
    }
    let next = try await later.next()
    #expect(next == [1] || next == [2])
    try await resuming.value
    #expect(try await values.next() == [2])
    try await store.close()
  }
}

/// A repository that is opened by name, with settings of its store.
@Suite(.timeLimit(.minutes(10))) struct RepositoryConfigurationTests {
  @Test func repositoryOpensItsStoreWithTheConfiguration() async throws {
    let folder = try Folder()
    let events = Mutex<[String]>([])
    var configuration = Store.Configuration()
    configuration.createIfMissing = false
    let missing = #expect(throws: StoreError.self) {
      try LocalRepository<Note>(directory: folder.url, configuration: configuration)
    }
    #expect(missing?.code == .notAStore)
    configuration.createIfMissing = true
    configuration.sharing = .shared
    configuration.durability = .sync
    configuration.onEvent = { event in events.withLock { $0.append("\(event)") } }
    let notes = try LocalRepository<Note>(directory: folder.url, configuration: configuration)
    try await notes.save(Note(id: 1, text: ""))
    let store = notes.keyspace.store
    #expect(store.durableSequence == (try await store.lastSequence()))
    // Another store of this process may share it, as the configuration says.
    let other = try Store(
      at: folder.url.appendingPathComponent("data.moraine"), configuration: configuration)
    #expect(try await other.count() == 1)
    try await other.close()
    try await notes.close()
    #expect(events.withLock { !$0.isEmpty })
    let error = await #expect(throws: StoreError.self) {
      var reading = Store.Configuration()
      reading.isReadOnly = true
      let notes = try await LocalRepository<Note>.open(
        directory: folder.url, configuration: reading)
      #expect(try await notes.find(by: 1) != nil)
      try await notes.save(Note(id: 2, text: ""))
    }
    #expect(error?.code == .readOnly)
  }

  /// The store may be open already, with another durability.
  @Test func durabilityOfTheConfigurationCountsForTheRepository() async throws {
    let folder = try Folder()
    let first = try LocalRepository<Note>(directory: folder.url)
    var configuration = Store.Configuration()
    configuration.durability = .sync
    let second = try LocalRepository<Note>(directory: folder.url, configuration: configuration)
    #expect(first.keyspace.store === second.keyspace.store)
    try await second.save(Note(id: 1, text: ""))
    let store = first.keyspace.store
    #expect(store.durableSequence == (try await store.lastSequence()))
    configuration.sharing = .shared
    let error = #expect(throws: StoreError.self) {
      try LocalRepository<Note>(directory: folder.url, configuration: configuration)
    }
    #expect(error?.code == .locked)
    try await first.close()
  }
}
