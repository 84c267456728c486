public import MoraineEngine

/// A change of one model.
public enum ModelChange<Model: Identifiable & Sendable>: Sendable where Model.ID: Sendable {
  /// The model was saved; the associated value is its new state.
  case saved(Model)
  /// The model with this id was deleted.
  case deleted(Model.ID)
}

/// The changes of a repository's models in their order, from all writers in all processes.
///
/// This is a ``/MoraineEngine/ChangeSequence`` that decodes the models. Save ``Iterator/cursor`` to
/// continue at the same place later.
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

  /// Decodes one change for each call. For one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var source: ChangeSequence.Iterator
    fileprivate let sequence: ModelChangeSequence
    /// The place after the last change that was returned; nil before the first change.
    public private(set) var cursor: ChangeCursor?

    fileprivate init(source: ChangeSequence.Iterator, sequence: ModelChangeSequence) {
      self.source = source
      self.sequence = sequence
    }

    /// - Throws: the errors of ``/MoraineEngine/ChangeSequence/Iterator/next(isolation:)``, and
    ///   `.decodingFailed`, `.newerFormat` for a model that cannot be read; the next call continues
    ///   after that model.
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
          .decodingFailed, "the key '\(change.key)' is not an id of this repository's models",
          file: sequence.place)
      }
      return .deleted(id)
    }
  }
}

extension LocalRepository {
  /// The changes of the models from now on.
  public nonisolated var changes: ModelChangeSequence<Model> { changes(since: nil) }

  /// Returns the changes of the models since a cursor, and then those that follow.
  ///
  /// - Parameter cursor: the cursor of an earlier iterator, from any run and any process; nil
  ///   starts with the next change.
  public nonisolated func changes(since cursor: ChangeCursor?) -> ModelChangeSequence<Model> {
    ModelChangeSequence(
      changes: keyspace.changes(since: cursor), format: format, keys: keys, place: place)
  }
}
