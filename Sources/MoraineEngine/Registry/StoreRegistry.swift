import MoraineStorage
import Synchronization
package import SystemPackage

/// The stores that this process has opened by a name, so that all who name one place share one
/// store: by whichever path, as long as it leads to the same directory.
///
/// A store that is closed, or whose files were replaced, is not handed out any more.
///
/// Thread safety: one thread at a time is at a place, and the list has a lock of its own,
/// which is not held while a store is opened. A thread that waits for a place blocks; the thread
/// that has the place opens a store and waits for nothing else.
package final class StoreRegistry: Sendable {
  package static let shared = StoreRegistry()

  private struct Entry {
    weak var store: Store?
    let spot: StoreSpot
  }

  private struct State {
    var entries: [Entry] = []
    /// Where some thread opens a store.
    var taken: [StoreSpot] = []
  }

  private let state = Monitor(State())

  /// Runs the body while no other thread of this process opens a store at the same place.
  ///
  /// - Throws: what the body throws, and `.io` when the system cannot say what is at the path.
  package func atPlace<Result>(
    _ path: FilePath, _ body: (RegisteredPlace) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      let spot = try StoreSpot(path)
      state.wait { (state) -> Monitor<State>.Wait<Void> in
        if state.taken.contains(where: spot.isSame) { return .forSignal }
        state.taken.append(spot)
        return .done(())
      }
      defer { free(spot) }
      // The directory may have been created while this thread waited.
      guard try StoreSpot(path) == spot else { continue }
      return try body(RegisteredPlace(registry: self, path: path, spot: spot))
    }
  }

  private func free(_ spot: StoreSpot) {
    state.withLock { state in
      guard let index = state.taken.firstIndex(of: spot) else {
        preconditionFailure("a path is released that was not registered")
      }
      state.taken.remove(at: index)
    }
    state.broadcast()
  }

  /// Opens the store at a path, or hands out the one that this process has open there. Blocks while
  /// it opens. The store is released with its last user, and what was written stays; closing it as
  /// well spares the next opening the reading of the log's end.
  ///
  /// - Throws: as ``Store/init(at:configuration:)``, and `.locked` when this process has the store
  ///   open in another way than is asked for.
  package func store(
    at path: FilePath, _ wish: StoreWish
  ) throws(StoreError) -> Store {
    try atPlace(path) { (place) throws(StoreError) in
      if let store = try place.openStore(wish) { return store }
      return try place.newStore(wish.configuration) { (configuration) throws(StoreError) in
        try Store(at: path, configuration: configuration)
      }
    }
  }

  /// As ``store(at:_:)``, on a thread of the pool, on which the place is chosen too.
  package func store(
    at place: @escaping @Sendable () throws(StoreError) -> (path: FilePath, wish: StoreWish)
  ) async throws(StoreError) -> Store {
    try await SerialQueue(.lasting).run { () throws(StoreError) in
      let (path, wish) = try place()
      return try self.store(at: path, wish)
    }
  }

  fileprivate func openStore(at spot: StoreSpot) -> Store? {
    state.withLock { state in
      state.entries.removeAll { $0.store?.isClosing ?? true }
      for entry in state.entries {
        guard let store = entry.store, !store.isOver else { continue }
        if spot.leads(to: store, from: entry.spot) { return store }
      }
      return nil
    }
  }

  /// Gives up a store whose files were replaced, where the directory is still the same one: it
  /// holds the lock.
  fileprivate func closeReplaced(at spot: StoreSpot) {
    let stores = state.withLock { state in state.entries.compactMap(\.store) }
    for store in stores where store.wasReplaced && spot.leads(to: store, from: spot) {
      store.leaveReplacedDirectory()
    }
  }

  fileprivate func add(_ store: Store, at spot: StoreSpot) {
    state.withLock { $0.entries.append(Entry(store: store, spot: spot)) }
  }
}

/// A place at which one thread looks for a store, or opens one.
package struct RegisteredPlace {
  fileprivate let registry: StoreRegistry
  let path: FilePath
  fileprivate let spot: StoreSpot

  /// The store that this process has open here.
  ///
  /// - Throws: `.locked` when it was opened in another way than is asked for.
  package func openStore(_ wish: StoreWish) throws(StoreError) -> Store? {
    guard let store = registry.openStore(at: spot) else { return nil }
    try wish.check(store.configuration, path)
    return store
  }

  /// Opens a store, and reads a keyspace of it on the way.
  package func newStore(
    _ configuration: Configuration, reading keyspace: String
  ) throws(StoreError) -> (store: Store, contents: KeyspaceContents) {
    var contents: KeyspaceContents?
    let store = try newStore(configuration) { (configuration) throws(StoreError) in
      let opened = try Store.opened(at: path, configuration: configuration, reading: keyspace)
      contents = opened.contents
      return opened.store
    }
    guard let contents else {
      preconditionFailure("a store was opened without reading its contents")
    }
    return (store, contents)
  }

  fileprivate func newStore(
    _ configuration: Configuration,
    _ open: (Configuration) throws(StoreError) -> Store
  ) throws(StoreError) -> Store {
    registry.closeReplaced(at: spot)
    let store = try open(configuration)
    registry.add(store, at: spot)
    return store
  }
}

/// How a store is to be opened, and in what a store that is open already must not differ.
package struct StoreWish: Sendable {
  package var configuration: Configuration
  /// Whether a store will do that other processes may have open, or that they may not, whichever
  /// was asked for.
  package var anySharing = false
  /// Whether a store will do that is for reading only, or that waits for less or more than was
  /// asked for.
  package var anyDurability = false

  package init(_ configuration: Configuration) { self.configuration = configuration }

  /// - Throws: `.locked`.
  fileprivate func check(_ open: Configuration, _ path: FilePath) throws(StoreError) {
    func refuse(_ how: String) throws(StoreError) {
      throw StoreError(
        .locked, "this process has the store open \(how); open it the same way, or close it first",
        file: path.string)
    }
    if !anySharing, open.sharing != configuration.sharing {
      try refuse("as \(open.sharing), not \(configuration.sharing)")
    }
    if open.isReadOnly != configuration.isReadOnly {
      try refuse(open.isReadOnly ? "for reading only" : "for writing")
    }
    if !anyDurability, open.durability != configuration.bounded().durability {
      try refuse("with another durability")
    }
  }
}

/// Where a store is, or is to be created.
struct StoreSpot: Hashable {
  let path: FilePath
  /// The directory that the store's is in; nil where there is none.
  let parent: FileIdentity?
  /// The store's own directory; nil before it is created.
  let directory: FileIdentity?

  /// - Throws: `.io`.
  init(_ path: FilePath) throws(StoreError) {
    self.path = path
    let disk = DiskStorage()
    (parent, directory) = try storing { () throws(StorageError) in
      (try disk.identityOfParent(of: path), try disk.identity(of: path))
    }
  }

  /// Whether a store that is created at one of the two is also at the other.
  func isSame(as other: StoreSpot) -> Bool {
    if let directory, let theirs = other.directory { return directory == theirs }
    return hasSameName(as: other)
  }

  private func hasSameName(as other: StoreSpot) -> Bool {
    guard let parent, let theirs = other.parent else { return path == other.path }
    return parent == theirs && path.lastComponent == other.path.lastComponent
  }

  /// Whether this is where a store is that was opened at a spot.
  func leads(to store: Store, from opened: StoreSpot) -> Bool {
    // One that has created no directory yet will create it here.
    guard let theirs = store.directoryIdentity else { return hasSameName(as: opened) }
    return directory == theirs
  }
}

extension Store {
  /// Whether ``close()`` has begun, or was called before.
  nonisolated var isClosing: Bool { observers.life.isClosing }

  /// Whether the store can be used no more, but for reading what it still has: it is closed, or its
  /// files were replaced.
  package nonisolated var isOver: Bool { isClosing || wasReplaced }

  /// Whether the files were deleted, moved or replaced while the store had them open.
  nonisolated var wasReplaced: Bool {
    pipeline.hasPoison && pipeline.poison?.code == .storeReplaced
  }

  nonisolated var directoryIdentity: FileIdentity? { observers.life.directory }

  /// As the store was opened.
  nonisolated var configuration: Configuration { opener.configuration }

  /// Closes the store in the background. From now on an opening of its directory waits for that.
  nonisolated func leaveReplacedDirectory() {
    observers.life.beginClosing()
    Task(executorPreference: pipeline.taskExecutor) {
      // It was told why it does not write any more.
      do throws(StoreError) { try await self.close() } catch {}
    }
  }
}
