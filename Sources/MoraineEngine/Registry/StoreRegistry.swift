import MoraineStorage
import Synchronization
package import SystemPackage

/// The stores that this process has opened through the registry. All callers that name one place
/// share one store, by whatever path, as long as the paths lead to the same directory.
///
/// The registry does not return a store that is closed or whose files were replaced.
///
/// Thread safety: one thread at a time owns a place. The list has its own lock, which no thread
/// holds while it opens a store. A thread that waits for a place blocks; the thread that owns the
/// place opens a store and waits for nothing else.
package final class StoreRegistry: Sendable {
  package static let shared = StoreRegistry()

  private struct Entry {
    weak var store: Store?
    let spot: StoreLocation
  }

  private struct State {
    var entries: [Entry] = []
    /// Places at which threads are opening stores.
    var taken: [StoreLocation] = []
  }

  private let state = Monitor(State())

  /// Runs the body while no other thread of this process opens a store at the same place.
  ///
  /// - Throws: the errors of the body, and `.io` when the system cannot say which directory is at
  ///   the path.
  package func atPlace<Result>(
    _ path: FilePath, _ body: (ClaimedLocation) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      let spot = try StoreLocation(path)
      state.wait { (state) -> Monitor<State>.Wait<Void> in
        if state.taken.contains(where: spot.isSame) { return .forSignal }
        state.taken.append(spot)
        return .done(())
      }
      defer { free(spot) }
      // The directory may have been created while this thread waited.
      guard try StoreLocation(path) == spot else { continue }
      return try body(ClaimedLocation(registry: self, path: path, spot: spot))
    }
  }

  private func free(_ spot: StoreLocation) {
    state.withLock { state in
      guard let index = state.taken.firstIndex(of: spot) else {
        preconditionFailure("a path is released that was not registered")
      }
      state.taken.remove(at: index)
    }
    state.broadcast()
  }

  /// Returns the store that this process has open at a path, or opens one. Blocks while it opens a
  /// store. The store is released with its last user, and written records stay. If the last user
  /// also closes it, the next opening need not read the end of the log.
  ///
  /// - Throws: the errors of ``Store/init(at:configuration:)``, and `.locked` when this process has
  ///   the store open in another way than the caller asks for.
  package func store(
    at path: FilePath, _ request: StoreRequest
  ) throws(StoreError) -> Store {
    try atPlace(path) { (place) throws(StoreError) in
      if let store = try place.openStore(request) { return store }
      return try place.newStore(request.configuration) { (configuration) throws(StoreError) in
        try Store(at: path, configuration: configuration)
      }
    }
  }

  /// Returns a store like ``store(at:_:)``, on a thread of the pool. The same thread calls `place`.
  package func store(
    at place: @escaping @Sendable () throws(StoreError) -> (path: FilePath, request: StoreRequest)
  ) async throws(StoreError) -> Store {
    try await SerialQueue(.lasting).run { () throws(StoreError) in
      let (path, request) = try place()
      return try self.store(at: path, request)
    }
  }

  fileprivate func openStore(at spot: StoreLocation) -> Store? {
    state.withLock { state in
      state.entries.removeAll { $0.store?.isClosing ?? true }
      for entry in state.entries {
        guard let store = entry.store, !store.isOver else { continue }
        if spot.leads(to: store, from: entry.spot) { return store }
      }
      return nil
    }
  }

  /// Closes a store whose files were replaced but which still holds the lock on this directory.
  fileprivate func closeReplaced(at spot: StoreLocation) {
    let stores = state.withLock { state in state.entries.compactMap(\.store) }
    for store in stores where store.wasReplaced && spot.leads(to: store, from: spot) {
      store.leaveReplacedDirectory()
    }
  }

  fileprivate func add(_ store: Store, at spot: StoreLocation) {
    state.withLock { $0.entries.append(Entry(store: store, spot: spot)) }
  }
}

/// A place at which one thread looks for a store or opens one.
package struct ClaimedLocation {
  fileprivate let registry: StoreRegistry
  let path: FilePath
  fileprivate let spot: StoreLocation

  /// Returns the store that this process has open at this place.
  ///
  /// - Throws: `.locked` when the store was opened in another way than the caller asks for.
  package func openStore(_ request: StoreRequest) throws(StoreError) -> Store? {
    guard let store = registry.openStore(at: spot) else { return nil }
    try request.check(store.configuration, path)
    return store
  }

  /// Opens a store, and reads one of its keyspaces on the way.
  package func newStore(
    _ configuration: Store.Configuration, reading keyspace: String
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
    _ configuration: Store.Configuration,
    _ open: (Store.Configuration) throws(StoreError) -> Store
  ) throws(StoreError) -> Store {
    registry.closeReplaced(at: spot)
    let store = try open(configuration)
    registry.add(store, at: spot)
    return store
  }
}

/// The way in which a caller wants a store opened. A store that is already open must agree with it.
package struct StoreRequest: Sendable {
  package var configuration: Store.Configuration
  /// Whether an open store may have another sharing mode than the configuration.
  package var acceptsAnySharing = false
  /// Whether an open store may have another durability than the configuration.
  package var acceptsAnyDurability = false

  package init(_ configuration: Store.Configuration) { self.configuration = configuration }

  /// - Throws: `.locked`.
  fileprivate func check(_ open: Store.Configuration, _ path: FilePath) throws(StoreError) {
    func refuse(_ how: String) throws(StoreError) {
      throw StoreError(
        .locked, "this process has the store open \(how); open it the same way, or close it first",
        file: path.string)
    }
    if !acceptsAnySharing, open.sharing != configuration.sharing {
      try refuse("as \(open.sharing), not \(configuration.sharing)")
    }
    if open.isReadOnly != configuration.isReadOnly {
      try refuse(open.isReadOnly ? "for reading only" : "for writing")
    }
    if !acceptsAnyDurability, open.durability != configuration.bounded().durability {
      try refuse("with another durability")
    }
  }
}

/// The place of a store, or of a store that may be created there.
struct StoreLocation: Hashable {
  let path: FilePath
  /// The parent of the store's directory; nil when it does not exist.
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

  /// Whether both are the same place: a store that is created at one of them is also at the other.
  func isSame(as other: StoreLocation) -> Bool {
    if let directory, let theirs = other.directory { return directory == theirs }
    return hasSameName(as: other)
  }

  private func hasSameName(as other: StoreLocation) -> Bool {
    guard let parent, let theirs = other.parent else { return path == other.path }
    return parent == theirs && path.lastComponent == other.path.lastComponent
  }

  /// Whether this is the place of a store that was opened at the spot `opened`.
  func leads(to store: Store, from opened: StoreLocation) -> Bool {
    // A store that has created no directory yet will create it at its spot.
    guard let theirs = store.directoryIdentity else { return hasSameName(as: opened) }
    return directory == theirs
  }
}

extension Store {
  /// Whether ``close()`` has begun or has ended.
  nonisolated var isClosing: Bool { observers.phase.isClosing }

  /// Whether the store is closed or its files were replaced. It can then do no more than read the
  /// records that it still has.
  package nonisolated var isOver: Bool { isClosing || wasReplaced }

  /// Whether the files were deleted, moved or replaced while the store had them open.
  nonisolated var wasReplaced: Bool {
    pipeline.hasPoison && pipeline.poison?.code == .storeReplaced
  }

  nonisolated var directoryIdentity: FileIdentity? { observers.phase.directory }

  /// The configuration with which the store was opened.
  nonisolated var configuration: Store.Configuration { opener.configuration }

  /// Closes the store in the background. From now on an opening of its directory waits for the end
  /// of the close.
  nonisolated func leaveReplacedDirectory() {
    observers.phase.beginClosing()
    Task(executorPreference: pipeline.taskExecutor) {
      // The poison has already reported why the store does not write any more.
      do throws(StoreError) { try await self.close() } catch {}
    }
  }
}
