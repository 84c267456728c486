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

  /// Returns settings in memory, for tests and previews. They are released with their last user,
  /// also those that could not be saved.
  public static func inMemory() -> PersistedStore {
    let (store, contents) = Store.emptyInMemory()
    let keyspace = Keyspace(store)
    return PersistedStore(
      PersistedSpaces.shared.insert(keyspace, contents, "memory", isTransient: true))
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

extension PersistedStore {
  private static let chosen = Mutex<PersistedStore?>(nil)

  /// Environment variable with the directory of the default store, or "memory". It is read in a
  /// process that chooses no default store.
  private static let variable = "MORAINE_SETTINGS"

  /// The store of all persisted values that name no store: the one that was chosen, or else
  /// `settings.moraine` in ``defaultDirectory``.
  ///
  /// If the store was closed, or its files were replaced, it is opened again for values that are
  /// created later.
  ///
  /// If the store cannot be opened, every value in it is its default and cannot be set, and
  /// ``PersistedProjection/error`` has the reason; ``PersistedProjection/reload()`` tries again.
  public static var `default`: PersistedStore {
    chosen.withLock { chosen in
      if let chosen, !chosen.space.isOver { return chosen }
      // A store that was closed, or whose files were replaced, is opened again at its place.
      let store = chosen.map(reopened) ?? opened()
      chosen = store
      return store
    }
  }

  private static func reopened(_ store: PersistedStore) -> PersistedStore {
    guard let source = store.space.source else { return store }
    do throws(StoreError) {
      let (path, request) = try source()
      return PersistedStore(try PersistedSpaces.shared.space(at: path, request))
    } catch {
      return PersistedStore(PersistedSpace(error, place: store.space.place, source: source))
    }
  }

  /// Chooses the default store. Call this at the start of the program, before any value uses the
  /// default store.
  ///
  /// - Throws: `.locked` when another store is the default already.
  public static func setDefault(_ store: PersistedStore) throws(StoreError) {
    let isNew = chosen.withLock { chosen in
      guard chosen.map({ $0.space === store.space || $0.space.isOver }) ?? true else {
        return false
      }
      chosen = store
      return true
    }
    if !isNew {
      throw StoreError(
        .locked,
        "the default store of settings is in use; set it before the first setting is created")
    }
  }

  /// The directory of this program in the user's application support directory, or in
  /// `XDG_DATA_HOME`.
  ///
  /// Its name is the bundle's identifier, or the name of the program.
  public static var defaultDirectory: URL {
    get throws(StoreError) { try defaultDirectory(creating: false) }
  }

  static func defaultDirectory(creating: Bool) throws(StoreError) -> URL {
    let manager = FileManager.default
    guard let support = manager.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
    else {
      throw StoreError(.invalidArgument, "this user has no application support directory; pass one")
    }
    // Without this folder all programs of a user would share one file.
    let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
    let folder = support.appendingPathComponent(program, isDirectory: true)
    if creating {
      do { try manager.createDirectory(at: folder, withIntermediateDirectories: true) } catch {
        throw StoreError(.io, "the directory cannot be created: \(error)", file: folder.path)
      }
    }
    return folder
  }

  private static func opened() -> PersistedStore {
    let place = ProcessInfo.processInfo.environment[variable] ?? ""
    if place == "memory" { return inMemory() }
    let directory = place.isEmpty ? nil : URL(fileURLWithPath: place, isDirectory: true)
    do throws(StoreError) {
      return try PersistedStore(directory: directory)
    } catch {
      let source: PersistedSpace.Source = { () throws(StoreError) in
        let folder = if let directory { directory } else { try defaultDirectory(creating: true) }
        return (try StorePlace.path(folder, "settings"), request(nil))
      }
      return PersistedStore(
        PersistedSpace(error, place: "the default settings", source: source))
    }
  }
}
