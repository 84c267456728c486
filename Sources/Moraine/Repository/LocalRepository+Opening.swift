public import Foundation
public import MoraineEngine
import SystemPackage

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// Opens, or will create, the store `filename.moraine` in a directory; blocks while it does.
  ///
  /// Whoever in this process names the same place gets the same store.
  ///
  /// - Parameters:
  ///   - directory: nil is the user's documents. It must be there.
  ///   - filename: a name, not a path.
  ///   - sharing: whether other processes may have the store too, who say the same. Whoever opens
  ///     it first in this process decides.
  ///   - format: how models are written, and what earlier versions of them are read.
  ///   - cache: which models are kept in memory.
  ///   - durability: what a save waits for; nil takes the store's, which is a sync within a second.
  /// - Throws: `.io` for a filename that is no name, `.locked` when another process has the store,
  ///   `.corrupted`, `.newerFormat`, `.notAStore`.
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
}

extension LocalRepository where Model.ID == UUID {
  /// As for ids that are `LosslessStringConvertible`, with UUIDs.
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

  /// As for ids that are `LosslessStringConvertible`, with UUIDs.
  public init(
    in store: Store, named name: String, format: ModelFormat<Model> = .json,
    cache: CachePolicy = .bounded(bytes: 8 << 20), durability: Durability? = nil
  ) throws(StoreError) {
    try self.init(
      in: store, named: name, keys: .uuid, format: format, cache: cache, durability: durability)
  }
}

extension LocalRepository {
  /// For ids that say neither, with the text that you give them.
  public init(
    directory: URL? = nil, filename: String = "data", keys: ModelKey<Model.ID>,
    sharing: Configuration.Sharing = .exclusive,
    format: ModelFormat<Model> = .json, cache: CachePolicy = .bounded(bytes: 8 << 20),
    durability: Durability? = nil
  ) throws(StoreError) {
    let path = try StorePlace.path(directory, filename)
    let store = try StoreRegistry.shared.store(at: path, sharing)
    self.init(
      try store.keyspace(named: ""), place: path.string, format: format, keys: keys, cache: cache,
      durability: durability)
  }

  /// For ids that say neither, with the text that you give them.
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
