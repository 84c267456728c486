public import MoraineEngine
import Synchronization

/// Finds the models of a repository from any thread, without an `await`: for synchronous code, and
/// for the main actor, where each `await` is a change of threads.
///
/// ```swift
/// let users = try await repository.reader()
/// let ada = try users.find(by: 7)
/// ```
///
/// A reader finds each model that a finished ``LocalRepository/save(_:)`` of this process has
/// saved. See ``/MoraineEngine/Store/Reader`` for what it costs and for other processes. It keeps
/// the models that it has found in memory, as the repository does, and decodes a model again when
/// another one was saved under its id. Use a new reader after files were restored from a backup
/// while the store was suspended: a model in memory is recognized by the number of its save.
public final class RepositoryReader<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: Sendable {
  private let reader: Store.Reader
  private let format: ModelFormat<Model>
  private let keys: ModelKey<Model.ID>
  private let place: String
  private let cache: Mutex<ModelCache<Model.ID, Model>>

  init(
    _ reader: Store.Reader, _ format: ModelFormat<Model>, _ keys: ModelKey<Model.ID>,
    place: String, _ policy: CachePolicy
  ) {
    (self.reader, self.format, self.keys, self.place) = (reader, format, keys, place)
    cache = Mutex(ModelCache(policy))
  }

  /// Returns the model with an id, or nil when there is none.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; the errors of
  ///   ``/MoraineEngine/Store/Reader/value(forKey:)``.
  /// - Complexity: O(1) for a model in memory, otherwise O(model).
  public func find(by id: Model.ID) throws(StoreError) -> Model? {
    let key = keys.key(id)
    let known = cache.withLock { $0.entry(id) }
    let sequence = known.map { SequenceNumber(rawValue: $0.sequence) }
    switch try reader.versionedValue(forKey: key, knowing: sequence) {
    case nil:
      if known != nil { cache.withLock { $0.remove(id) } }
      return nil
    case .known: return known?.model
    case .value(let found):
      let model = try format.decode(found.value, key, place)
      cache.withLock {
        $0.insert(
          ModelCache.Entry(
            model: model, sequence: found.sequence.rawValue, costBytes: found.value.count),
          for: id)
      }
      return model
    }
  }
}

extension LocalRepository {
  /// Returns a reader of the models, for synchronous code on any thread.
  ///
  /// - Parameter cache: which models the reader keeps in memory; the repository has its own cache.
  /// - Throws: the errors of ``find(by:)``.
  public func reader(
    cache: CachePolicy = .bounded(bytes: 8 << 20)
  ) async throws(StoreError)
    -> RepositoryReader<Model>
  {
    try await prepareToRead()
    return RepositoryReader(
      try await keyspace.reader(), format, keys, place: place, cache)
  }
}
