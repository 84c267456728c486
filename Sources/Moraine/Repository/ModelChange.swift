public import MoraineEngine

/// What happened to one model.
public enum ModelChange<Model: Identifiable & Sendable>: Sendable where Model.ID: Sendable {
  /// It was saved: this is what it is now.
  case saved(Model)
  /// It was deleted.
  case deleted(Model.ID)
}

/// The changes of a repository's models, by whomever they are made, in their order.
///
/// As ``/MoraineEngine/ChangeSequence``, with models; ``Iterator/cursor`` says where to go on.
public struct ModelChangeSequence<Model: Codable & Identifiable & Sendable>: AsyncSequence, Sendable
where Model.ID: Sendable {
  public typealias Element = ModelChange<Model>
  public typealias Failure = StoreError

  let changes: ChangeSequence
  let format: ModelFormat<Model>
  let keys: ModelKey<Model.ID>
  let place: String

  public func makeAsyncIterator() -> Iterator {
    Iterator(source: changes.makeAsyncIterator(), sequence: self)
  }

  /// Decodes the changes as it is asked; one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var source: ChangeSequence.Iterator
    fileprivate let sequence: ModelChangeSequence
    /// Behind the last change that was given; nil before the first.
    public private(set) var cursor: ChangeCursor?

    fileprivate init(source: ChangeSequence.Iterator, sequence: ModelChangeSequence) {
      self.source = source
      self.sequence = sequence
    }

    /// - Throws: as ``/MoraineEngine/ChangeSequence/Iterator/next(isolation:)``, and
    ///   `.decodingFailed`, `.newerFormat` for a model that cannot be read; the next call goes on
    ///   behind it.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Element? {
      guard let change = try await source.next(isolation: actor) else { return nil }
      cursor = change.cursor
      if let bytes = change.value {
        return .saved(try sequence.format.decode(bytes, change.key, sequence.place))
      }
      guard let id = sequence.keys.id(change.key.description) else {
        throw StoreError(
          .decodingFailed, "the key '\(change.key)' is no id of this repository's models",
          file: sequence.place)
      }
      return .deleted(id)
    }
  }
}

extension LocalRepository {
  /// What happens to the models from now on.
  public nonisolated var changes: ModelChangeSequence<Model> { changes(since: nil) }

  /// What happened to the models since a cursor, and what happens.
  ///
  /// - Parameter cursor: of an earlier iterator, in any run and any process; nil begins now.
  public nonisolated func changes(since cursor: ChangeCursor?) -> ModelChangeSequence<Model> {
    ModelChangeSequence(
      changes: keyspace.changes(since: cursor), format: format, keys: keys, place: place)
  }
}
