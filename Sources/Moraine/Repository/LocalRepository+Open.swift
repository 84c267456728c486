public import Foundation
public import MoraineEngine
import SystemPackage

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// Opens the store `filename.moraine` in a directory and blocks while it does. A store that does
  /// not exist is created with the first write.
  ///
  /// In one process, all repositories for the same place share one store, whichever path leads to
  /// it. A store that was closed, or whose files were replaced, is opened again. While this process
  /// is closing the store, opening it waits, for ten seconds at most.
  ///
  /// - Parameters:
  ///   - directory: the directory, which must exist; nil is the user's documents directory.
  ///   - filename: a name, not a path.
  ///   - sharing: whether other processes, which must also pass `.shared`, may open the store at
  ///     the same time; nil takes that of `configuration`. All openings of one store in this
  ///     process must pass the same value.
  ///   - configuration: the settings of the store; nil for the defaults: an exclusive store that is
  ///     created where none exists. If this process has the store open already, it stays open as
  ///     the first opening has set it, except that another `sharing` or `isReadOnly` is an error.
  ///   - format: how models are written, and which earlier versions of them can be read.
  ///   - indexes: the values by which models are found, apart from their ids.
  ///   - cache: which models are kept in memory.
  ///   - durability: what a save waits for; nil takes that of `configuration`, or else the store's,
  ///     which is a sync within a second by default.
  /// - Throws: `.invalidArgument` when `filename` is not a valid name; `.io` when the directory
  ///   cannot be written; `.locked` when another process has the store open, or this process has it
  ///   open with another `sharing` or `isReadOnly`; `.corrupted`, `.newerFormat`, `.notAStore`.
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache,
      durability: durability)
  }

  /// Creates a repository for the models in a named keyspace of a store. Other repositories may
  /// share the store.
  ///
  /// - Parameters:
  ///   - store: the store, which the repository keeps alive.
  ///   - name: the name of the keyspace; empty for the unnamed one.
  ///   - format: how models are written, and which earlier versions of them can be read.
  ///   - indexes: the values by which models are found, apart from their ids.
  ///   - cache: which models are kept in memory.
  ///   - durability: what a save waits for; nil takes the store's.
  /// - Throws: `.keyTooLarge` when the name is longer than
  ///   ``/MoraineEngine/Keyspace/nameLengthBytes``.
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .lossless, format: format, indexes: indexes, cache: cache,
      durability: durability)
  }

  /// Opens the store like
  /// ``init(directory:filename:sharing:configuration:format:indexes:cache:durability:)``, in places
  /// where an error cannot be thrown, such as the default argument of an initializer:
  ///
  /// ```swift
  /// init(contacts: LocalRepository<Contact> = .opened()) { self.contacts = contacts }
  /// ```
  ///
  /// When the store cannot be opened, each method and each sequence of the repository throws the
  /// error that the initializer would have thrown, and ``LiveModels/phase`` shows it. Nothing is
  /// saved. To try again, create another repository.
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }

  /// Opens the store like
  /// ``init(directory:filename:sharing:configuration:format:indexes:cache:durability:)``, but not
  /// on the caller's thread.
  ///
  /// Prefer this in a task: the initializer blocks the task's thread while it opens the store, and
  /// while another task closes the same store.
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }
}

extension LocalRepository where Model.ID == UUID {
  /// Opens a store, for ids that are UUIDs.
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache,
      durability: durability)
  }

  /// Creates a repository in a keyspace, for ids that are UUIDs.
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .uuid, format: format, indexes: indexes, cache: cache,
      durability: durability)
  }

  /// Opens a store without throwing, for ids that are UUIDs.
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }

  /// Opens a store off the caller's thread, for ids that are UUIDs.
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }
}

extension LocalRepository
where Model.ID: RawRepresentable, Model.ID.RawValue: LosslessStringConvertible & Sendable {
  /// Opens a store, for ids with a raw value, such as enums. The raw value is the text of the key.
  @_disfavoredOverload
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }

  /// Creates a repository in a keyspace, for ids with a raw value, such as enums.
  @_disfavoredOverload
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .rawValue, format: format, indexes: indexes, cache: cache,
      durability: durability)
  }

  /// Opens a store without throwing, for ids with a raw value, such as enums.
  @_disfavoredOverload
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }

  /// Opens a store off the caller's thread, for ids with a raw value, such as enums.
  @_disfavoredOverload
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }
}

/// Initializers for ids of any other type. They let the compiler name the missing argument.
extension LocalRepository {
  /// Not available: an id of this type has no text form that the repository knows.
  @available(
    *, unavailable, message: "pass keys: ModelKey(text:id:), or use a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .none, sharing: sharing,
      configuration: configuration, format: format,
      indexes: indexes,
      cache: cache, durability: durability)
  }

  /// Not available: an id of this type has no text form that the repository knows.
  @available(
    *, unavailable, message: "pass keys: ModelKey(text:id:), or use a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [],
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .none, format: format, indexes: indexes, cache: cache,
      durability: durability)
  }
}

extension LocalRepository {
  /// Opens a store, for all other ids: `keys` converts an id to the text of its key and back.
  public init(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [], cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    let path = try StorePlace.path(directory, filename)
    let store = try StoreRegistry.shared.store(at: path, Self.request(sharing, configuration))
    let keyspace = try store.keyspace(named: "")
    self.init(
      keyspace, place: path.string, format: format,
      indexes: try RepositoryIndexes(indexes, of: keyspace, format), keys: keys, cache: cache,
      durability: durability ?? configuration?.durability)
  }

  /// Opens a store without throwing, for all other ids, which `keys` converts to text and back.
  public static func opened(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [], cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    do throws(StoreError) {
      return try LocalRepository(
        directory: directory, filename: filename, keys: keys, sharing: sharing,
        configuration: configuration, format: format,
        indexes: indexes,
        cache: cache, durability: durability)
    } catch {
      return LocalRepository(
        Keyspace(.refusing(error)), place: error.file ?? filename, format: format,
        indexes: nil, keys: keys,
        cache: .none, durability: durability)
    }
  }

  /// Opens a store off the caller's thread, for all other ids, which `keys` converts to text.
  public static func open(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Store.Configuration.Sharing? = nil, configuration: Store.Configuration? = nil,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [], cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    let path = try StorePlace.path(directory, filename)
    let store = try await StoreRegistry.shared.store { (path, request(sharing, configuration)) }
    let keyspace = Keyspace(store)
    return LocalRepository(
      keyspace, place: path.string, format: format,
      indexes: try RepositoryIndexes(indexes, of: keyspace, format), keys: keys, cache: cache,
      durability: durability ?? configuration?.durability)
  }

  private static func request(
    _ sharing: Store.Configuration.Sharing?, _ configuration: Store.Configuration?
  ) -> StoreRequest {
    var configuration = configuration ?? Store.Configuration()
    if let sharing { configuration.sharing = sharing }
    var request = StoreRequest(configuration)
    // A repository has a durability of its own.
    request.acceptsAnyDurability = true
    return request
  }

  /// Creates a repository in a keyspace, for all other ids, which `keys` converts to text and back.
  public init(
    in store: Store, named name: String, keys: ModelKey<Model.ID>,
    format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = [], cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    let keyspace = try store.keyspace(named: name)
    self.init(
      keyspace, place: "keyspace '\(name)'", format: format,
      indexes: try RepositoryIndexes(indexes, of: keyspace, format), keys: keys, cache: cache,
      durability: durability)
  }
}

extension ModelKey {
  /// Keys for the initializers that the compiler does not permit to be called.
  fileprivate static var none: ModelKey { ModelKey(text: { _ in "" }, id: { _ in nil }) }
}

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// Returns a repository in memory, for tests and previews. Its models are released with the last
  /// reference to it.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = []
  ) -> LocalRepository {
    inMemory(models, keys: .lossless, format: format, indexes: indexes)
  }
}

extension LocalRepository where Model.ID == UUID {
  /// Returns a repository in memory, for ids that are UUIDs.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = []
  ) -> LocalRepository {
    inMemory(models, keys: .uuid, format: format, indexes: indexes)
  }
}

extension LocalRepository
where Model.ID: RawRepresentable, Model.ID.RawValue: LosslessStringConvertible & Sendable {
  /// Returns a repository in memory, for ids with a raw value, such as enums. The raw value is the
  /// text of the key.
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = []
  ) -> LocalRepository {
    inMemory(models, keys: .rawValue, format: format, indexes: indexes)
  }
}

extension LocalRepository {
  /// Not available: an id of this type has no text form that the repository knows.
  @available(
    *, unavailable, message: "pass keys: ModelKey(text:id:), or use a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = []
  ) -> LocalRepository {
    fatalError("the compiler does not permit this call")
  }

  /// Returns a repository in memory, for all other ids: `keys` converts an id to the text of its
  /// key and back.
  public static func inMemory(
    _ models: [Model] = [], keys: ModelKey<Model.ID>, format: ModelFormat<Model> = .json,
    indexes: [ModelIndex<Model>] = []
  ) -> LocalRepository {
    do throws(StoreError) {
      let keyspace = try Store.inMemory().keyspace(named: "")
      return LocalRepository(
        keyspace, place: "memory", format: format,
        indexes: try RepositoryIndexes(indexes, of: keyspace, format), keys: keys,
        cache: .bounded(bytes: 8 << 20), durability: nil, first: models)
    } catch {
      fatalError("the unnamed keyspace has a name that is too long: \(error)")
    }
  }

  /// Does the same as ``prepare()``, for an operation that only reads or deletes.
  ///
  /// A repository without models needs no indexes yet. And a store that cannot be written to now,
  /// for example because the disk is full or because it follows an archive, can be read
  /// nevertheless: queries then decode all models. A full disk still has space for deletes, which
  /// remove the entries of all indexes that the store has.
  func prepareToRead() async throws(StoreError) {
    guard let indexes, !isRegistered, first.isEmpty else { return try await prepare() }
    if indexes.failure.isRecent || keyspace.store.isFollowing { return }
    do throws(StoreError) {
      // Without models, the indexes are added with the first one.
      let catalog = try await indexes.readCatalog()
      if try indexes.added(to: catalog) != catalog, try await !indexes.mayHaveModels() { return }
      try await register()
    } catch {
      switch error.code {
      case .noSpace, .io, .poisoned, .limitExceeded, .usedAfterFork, .locked:
        indexes.failure.set(true)
        keyspace.store.report(.indexBuildingFailed(keyspace: keyspace.name, error))
      default: throw error
      }
    }
  }

  /// Prepares for an operation that may save models, or only delete some.
  ///
  /// - Returns: the error for a save; nil when models can be saved. A full disk may have no space
  ///   for the list of the indexes, but it has some for deletes.
  func prepareToDelete() async throws(StoreError) -> StoreError? {
    do throws(StoreError) { try await prepare() } catch {
      guard error.code == .noSpace, first.isEmpty else { throw error }
      return error
    }
    return nil
  }

  /// Saves the models that the repository was created with. Every operation calls this first.
  func prepare() async throws(StoreError) {
    if !isRegistered { try await register() }
    if let preparation { return try await waitForFirst(preparation) }
    if first.isEmpty { return }
    let models = first
    let task = Task { () -> Result<Void, StoreError> in
      do throws(StoreError) {
        let last = try await self.store(models)
        self.firstSequence = last ?? SequenceNumber.none
        return .success(())
      } catch {
        return .failure(error)
      }
    }
    preparation = task
    try await waitForFirst(task)
  }

  /// Waits for an attempt to save the first models. After one that has failed, the next operation
  /// tries again: the store may have been suspended.
  private func waitForFirst(
    _ attempt: Task<Result<Void, StoreError>, Never>
  ) async throws(StoreError) {
    let result = await attempt.value
    // Another operation may have begun the next attempt by now.
    if preparation == attempt {
      // Awaiting the task costs a little for each operation, so it is dropped.
      preparation = nil
      if case .success = result { first = [] }
    }
    try result.get()
  }
}

extension LocalRepository {
  /// Adds the declared indexes to the store's catalog. If entries are missing, a task in the
  /// background adds them. A store that follows an archive gets them with the first operation after
  /// its promotion.
  private func register() async throws(StoreError) {
    guard let indexes, !keyspace.store.isFollowing else { return }
    let catalog = try await indexes.register()
    let isReady = indexes.numbers.allSatisfy { catalog[$0]?.state == .ready }
    let hasDropped = catalog.indexes.contains { $0.state == .dropped }
    if !keyspace.store.isReadOnly {
      let marks = try await indexes.keyspace.keys(in: IndexLayout.allPending, limit: 1)
      if !isReady || hasDropped || !marks.isEmpty {
        IndexBuilds.begin(IndexBuilder(repository: self, indexes: indexes))
      }
    }
    isRegistered = true
  }

  /// Begins to build indexes again, unless that has failed a short time ago.
  nonisolated func buildInBackground() {
    guard let indexes, !keyspace.store.isReadOnly, !keyspace.store.isFollowing,
      !indexes.failure.isRecent
    else { return }
    IndexBuilds.begin(IndexBuilder(repository: self, indexes: indexes))
  }
}
