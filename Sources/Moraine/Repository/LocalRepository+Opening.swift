public import Foundation
public import MoraineEngine
import SystemPackage

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// Opens, or will create, the store `filename.moraine` in a directory; blocks while it does.
  ///
  /// All who name the same place in this process get the same store, whichever path leads to it. A
  /// store that was closed, or whose files were replaced, is opened again; while a store of this
  /// process is being closed, opening it waits, for ten seconds at most.
  ///
  /// - Parameters:
  ///   - directory: nil is the user's documents. It must be there.
  ///   - filename: a name, not a path.
  ///   - sharing: whether other processes may have the store too, who say the same. It must be the
  ///     same for all who open the store in this process.
  ///   - format: how models are written, and what earlier versions of them are read.
  ///   - cache: which models are kept in memory.
  ///   - durability: what a save waits for; nil takes the store's, which is a sync within a second.
  /// - Throws: `.io` for a filename that is no name and where the directory cannot be written,
  ///   `.locked` when another process has the store, or this process has it open with another
  ///   `sharing`; `.corrupted`, `.newerFormat`, `.notAStore`.
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing, format: format,
      cache: cache,
      durability: durability)
  }

  /// Models in a named keyspace of a store, which other repositories may share.
  ///
  /// - Parameters:
  ///   - store: which one; the repository keeps it alive.
  ///   - name: of the keyspace; empty for the unnamed one.
  ///   - format: how models are written, and what earlier versions of them are read.
  ///   - cache: which models are kept in memory.
  ///   - durability: what a save waits for; nil takes the store's.
  /// - Throws: `.keyTooLarge` when the name is longer than
  ///   ``/MoraineEngine/Keyspace/nameLengthBytes``.
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .lossless, format: format, cache: cache,
      durability: durability)
  }

  /// The same as ``init(directory:filename:sharing:format:cache:durability:)``, for places where an
  /// error cannot be thrown, such as the default argument of an initializer:
  ///
  /// ```swift
  /// init(contacts: LocalRepository<Contact> = .opened()) { self.contacts = contacts }
  /// ```
  ///
  /// Where the store cannot be opened, each method of the repository throws the error that the
  /// initializer would have thrown, sequences too, and ``LiveModels/phase`` says it. Nothing is
  /// kept. To try again, make another repository.
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }

  /// Opens off the caller's thread. Otherwise as
  /// ``init(directory:filename:sharing:format:cache:durability:)``.
  ///
  /// In a task this is the better choice: the initializer keeps the task's thread while it opens,
  /// and while another task closes the same store.
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .lossless, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }
}

extension LocalRepository where Model.ID == UUID {
  /// The same for ids that are UUIDs.
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing, format: format,
      cache: cache,
      durability: durability)
  }

  /// The same for ids that are UUIDs.
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .uuid, format: format, cache: cache, durability: durability)
  }

  /// The same for ids that are UUIDs.
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }

  /// The same for ids that are UUIDs.
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .uuid, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }
}

extension LocalRepository
where Model.ID: RawRepresentable, Model.ID.RawValue: LosslessStringConvertible & Sendable {
  /// The same for ids that are enums: their raw value is the text of the key.
  @_disfavoredOverload
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }

  /// The same for ids that are enums: their raw value is the text of the key.
  @_disfavoredOverload
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .rawValue, format: format, cache: cache,
      durability: durability)
  }

  /// The same for ids that are enums: their raw value is the text of the key.
  @_disfavoredOverload
  public static func opened(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    opened(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }

  /// The same for ids that are enums: their raw value is the text of the key.
  @_disfavoredOverload
  public static func open(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    try await open(
      directory: directory, filename: filename, keys: .rawValue, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }
}

/// Ids of any other type, where the compiler says what is missing.
extension LocalRepository {
  /// Not available: an id of this type does not say how it is written.
  @available(
    *, unavailable, message: "give keys: ModelKey(text:id:), or a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public init(
    directory: URL? = nil, filename: String = "data",
    sharing: Configuration.Sharing = .exclusive, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      directory: directory, filename: filename, keys: .none, sharing: sharing, format: format,
      cache: cache, durability: durability)
  }

  /// Not available: an id of this type does not say how it is written.
  @available(
    *, unavailable, message: "give keys: ModelKey(text:id:), or a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .none, format: format, cache: cache, durability: durability)
  }
}

extension LocalRepository {
  /// The same for other ids: the caller gives the text of the key.
  public init(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Configuration.Sharing = .exclusive,
    format: ModelFormat<Model> = .json, cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    let path = try StorePlace.path(directory, filename)
    let store = try StoreRegistry.shared.store(at: path, Self.wish(sharing))
    self.init(
      try store.keyspace(named: ""), place: path.string, format: format, keys: keys, cache: cache,
      durability: durability)
  }

  /// The same for other ids: the caller gives the text of the key.
  public static func opened(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Configuration.Sharing = .exclusive,
    format: ModelFormat<Model> = .json, cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) -> LocalRepository {
    do throws(StoreError) {
      return try LocalRepository(
        directory: directory, filename: filename, keys: keys, sharing: sharing, format: format,
        cache: cache, durability: durability)
    } catch {
      return LocalRepository(
        Keyspace(.refusing(error)), place: error.file ?? filename, format: format, keys: keys,
        cache: .none, durability: durability)
    }
  }

  /// The same for other ids: the caller gives the text of the key.
  public static func open(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Configuration.Sharing = .exclusive,
    format: ModelFormat<Model> = .json, cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) async throws(StoreError) -> LocalRepository {
    let path = try StorePlace.path(directory, filename)
    let store = try await StoreRegistry.shared.store { (path, wish(sharing)) }
    return LocalRepository(
      Keyspace(store), place: path.string, format: format, keys: keys, cache: cache,
      durability: durability)
  }

  private static func wish(_ sharing: Configuration.Sharing) -> StoreWish {
    var configuration = Configuration()
    configuration.sharing = sharing
    var wish = StoreWish(configuration)
    // A repository has its own.
    wish.anyDurability = true
    return wish
  }

  /// The same for other ids: the caller gives the text of the key.
  public init(
    in store: Store, named name: String, keys: ModelKey<Model.ID>,
    format: ModelFormat<Model> = .json, cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    self.init(
      try store.keyspace(named: name), place: "keyspace '\(name)'", format: format, keys: keys,
      cache: cache, durability: durability)
  }
}

extension ModelKey {
  /// For what the compiler does not permit to be called.
  fileprivate static var none: ModelKey { ModelKey(text: { _ in "" }, id: { _ in nil }) }
}
