public import Foundation
public import MoraineEngine
import Synchronization
import SystemPackage

/// The store of persisted values: a store of settings, or a keyspace of any store.
///
/// It reads all values when it is created and keeps them in memory, so that reading a value never
/// waits: it is for settings, not for documents. All instances for one place share their values.
///
/// ```swift
/// let settings = try PersistedStore(directory: folder)
/// @Persisted("theme", in: settings) var theme = Theme.light
/// ```
public struct PersistedStore: Sendable {
  let space: PersistedSpace

  init(_ space: PersistedSpace) { self.space = space }

  static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    return configuration
  }

  /// Returns how the store is to be opened.
  ///
  /// - Parameter configuration: nil for the default one; a store that is open already may then have
  ///   another one.
  static func request(_ configuration: Store.Configuration?) -> StoreRequest {
    var request = StoreRequest(configuration ?? Self.configuration)
    request.acceptsAnySharing = configuration == nil
    request.acceptsAnyDurability = configuration == nil
    return request
  }

  /// Opens the store `filename.moraine` in a directory and blocks while it does. A store that does
  /// not exist is created with the first write. The store stays open until ``close()``, or until
  /// the process ends.
  ///
  /// - Parameters:
  ///   - directory: nil is ``defaultDirectory``, which is created if it does not exist.
  ///   - filename: a name, not a path.
  ///   - configuration: nil is the default configuration with `sharing = .shared`: the program may
  ///     run twice at once, and other processes may show and change the same settings. If this
  ///     process has the store open already, nil takes it as it is.
  /// - Throws: `.locked` when another process has the store open exclusively, when this process has
  ///   it open for another purpose (use ``init(_:)`` with a keyspace of that store), or when this
  ///   process has it open with another sharing or durability than `configuration`. Also the errors
  ///   of opening a ``LocalRepository``.
  public init(
    directory: URL? = nil, filename: String = "settings",
    configuration: Store.Configuration? = nil
  ) throws(StoreError) {
    let folder = if let directory { directory } else { try Self.defaultDirectory(creating: true) }
    let path = try StorePlace.path(folder, filename)
    space = try PersistedSpaces.shared.space(at: path, Self.request(configuration))
  }

  /// Reads the settings in a keyspace of an open store.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  public init(_ keyspace: Keyspace) async throws(StoreError) {
    space = try await PersistedSpaces.shared.space(in: keyspace)
  }

  /// Returns settings in memory, for tests and previews. They are released with their last user.
  public static func inMemory() -> PersistedStore {
    let (store, contents) = Store.emptyInMemory()
    let keyspace = Keyspace(store)
    return PersistedStore(PersistedSpaces.shared.insert(keyspace, contents, "memory"))
  }

  /// The keyspace of the values; nil when the store could not be opened. Each value is stored under
  /// its name, as JSON unless its key has another format.
  public var keyspace: Keyspace? { space.keyspace }

  /// Waits until everything that was set before is durable.
  ///
  /// - Throws: the errors of ``PersistedProjection/save()``, except for values that could not be
  ///   saved: those have the error in their own ``PersistedProjection/error``.
  public func save() async throws(StoreError) {
    try await space.attempt()
    try await space.sync()
  }

  /// Saves everything and closes the store for all its users. Values that are still in use stay as
  /// they are, and cannot be saved before ``PersistedProjection/reload()``. The next
  /// ``init(directory:filename:configuration:)`` for this place opens the store again.
  ///
  /// - Throws: the errors of ``save()`` and ``/MoraineEngine/Store/close()``; the store is closed
  ///   in any case.
  public func close() async throws(StoreError) {
    let store = try space.openKeyspace().store
    try await space.attempt()
    defer { PersistedSpaces.shared.remove(space) }
    try await store.close()
  }
}
