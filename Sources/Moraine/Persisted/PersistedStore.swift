public import Foundation
public import MoraineEngine
import Synchronization
import SystemPackage

/// Where persisted values are kept: a store of settings, or a keyspace of any store.
///
/// It reads all of them when it is made, and keeps them in memory, so that nobody has to wait for a
/// value later: it is for settings, not for documents. As many as are made for one place are the
/// same.
///
/// ```swift
/// let settings = try PersistedStore(directory: folder)
/// @Persisted("theme", in: settings) var theme = Theme.light
/// ```
public struct PersistedStore: Sendable {
  let space: PersistedSpace

  init(_ space: PersistedSpace) { self.space = space }

  static var configuration: Configuration {
    var configuration = Configuration()
    configuration.sharing = .shared
    return configuration
  }

  /// - Parameter configuration: nil for the usual one, or as the store is open already.
  static func wish(_ configuration: Configuration?) -> StoreWish {
    var wish = StoreWish(configuration ?? Self.configuration)
    wish.anySharing = configuration == nil
    wish.anyDurability = configuration == nil
    return wish
  }

  /// Opens, or will create, the store `filename.moraine` in a directory; blocks while it does. It
  /// stays open until the process ends, or ``close()``.
  ///
  /// - Parameters:
  ///   - directory: nil is ``defaultDirectory``, which is made where it is missing.
  ///   - filename: a name, not a path.
  ///   - configuration: nil is the usual one, but `shared`: the program may run twice at once, and
  ///     other processes may show and change the same settings. Where this process has the store
  ///     open already, nil takes it as it is.
  /// - Throws: `.locked` when another process has the store for itself, or when this one has it
  ///   open for something else: then ``init(_:)`` takes a keyspace of that; or when this one has it
  ///   open with another sharing or durability than `configuration` says. As opening a
  ///   ``LocalRepository``.
  public init(
    directory: URL? = nil, filename: String = "settings",
    configuration: Configuration? = nil
  ) throws(StoreError) {
    let folder = if let directory { directory } else { try Self.defaultDirectory(creating: true) }
    let path = try StorePlace.path(folder, filename)
    space = try PersistedSpaces.shared.space(at: path, Self.wish(configuration))
  }

  /// The settings in a keyspace of a store that is open. It awaits the reading of them.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  public init(_ keyspace: Keyspace) async throws(StoreError) {
    space = try await PersistedSpaces.shared.space(in: keyspace)
  }

  /// Settings that live in memory and go with their last user: for tests and previews.
  public static func inMemory() -> PersistedStore {
    let (store, contents) = Store.emptyInMemory()
    let keyspace = Keyspace(store)
    return PersistedStore(PersistedSpaces.shared.insert(keyspace, contents, "memory"))
  }

  /// Where the values are: each under its name, as JSON unless its key says otherwise. Nil when the
  /// store could not be opened.
  public var keyspace: Keyspace? { space.keyspace }

  /// Waits until everything that was set before is durable.
  ///
  /// - Throws: as ``PersistedProjection/save()``, but for values that could not be saved: their own
  ///   ``PersistedProjection/error`` says that.
  public func save() async throws(StoreError) {
    try await space.attempt()
    try await space.sync()
  }

  /// Saves everything, and closes the store for all who use it. Values that are still in use keep
  /// what they are, and cannot be saved before ``PersistedProjection/reload()``. Naming the place
  /// again opens the store again.
  ///
  /// - Throws: as ``save()`` and ``/MoraineEngine/Store/close()``; the store is closed even so.
  public func close() async throws(StoreError) {
    let store = try space.openKeyspace().store
    try await space.attempt()
    defer { PersistedSpaces.shared.remove(space) }
    try await store.close()
  }
}
