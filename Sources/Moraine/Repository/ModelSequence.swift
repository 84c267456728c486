public import MoraineEngine

/// The models of a repository, one after the other, without loading all of them into memory.
///
/// - Every model that exists from the first call to the last is returned, in the order in which the
///   models were last saved.
/// - A model that is saved while the sequence is read is returned in its old state, in its new
///   state, or in both; the newer one then comes last. A model that is deleted while the sequence
///   is read may or may not be returned.
/// - The sequence holds about 256 models or a megabyte at a time. The last page may be longer: it
///   has every model that was saved while the sequence read its second round, which returns the
///   models that were saved during the first. Nothing waits for the sequence: the repository can be
///   used while it is read.
/// - Cancelling the task does not end the sequence: a sequence that ends early would look complete.
///
/// ```swift
/// for try await user in users.models { print(user.name) }
/// ```
public struct ModelSequence<Model: Codable & Identifiable & Sendable>: AsyncSequence, Sendable
where Model.ID: Sendable {
  public typealias Element = Model
  public typealias Failure = StoreError

  let repository: LocalRepository<Model>

  public func makeAsyncIterator() -> Iterator { Iterator(repository: repository) }

  /// Reads page after page. For one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let repository: LocalRepository<Model>
    private var ready: ArraySlice<Store.Entry> = []
    /// The place of the next page; nil at the end.
    private var walk: LiveWalk? = LiveWalk()
    private var isPrepared = false

    fileprivate init(repository: LocalRepository<Model>) { self.repository = repository }

    /// - Throws: `.decodingFailed`, `.newerFormat` for a model that cannot be read: the next call
    ///   continues after that model. `.corrupted`, `.io`, `.closed`: the next call tries again.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Model? {
      if !isPrepared {
        try await repository.prepareToRead()
        isPrepared = true
      }
      while true {
        if let entry = ready.popFirst() {
          return try repository.format.decode(entry.value, entry.key, repository.place)
        }
        guard let walk else { return nil }
        let page = try await repository.keyspace.livePage(walk)
        ready = page.entries[...]
        self.walk = page.next
      }
    }
  }
}

extension LocalRepository {
  /// The models, one after the other. Unlike ``loadAll()`` this takes little memory and does not
  /// show one moment; see ``ModelSequence``.
  public nonisolated var models: ModelSequence<Model> { ModelSequence(repository: self) }
}
