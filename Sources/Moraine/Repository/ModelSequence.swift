public import MoraineEngine

/// The models of a repository, one after the other, without having all of them in memory.
///
/// - Every model that is there from the first call to the last comes; those saved last come last.
/// - One that is saved while the sequence is read comes as it was, as it is, or both, the newer
///   last. One that is deleted meanwhile may come or not.
/// - It holds about 256 models or a megabyte, and what is changed while it reads what was changed
///   while it read. Nothing waits for it: the repository can be used meanwhile.
/// - Cancelling the task does not end it: what ends early would look as if that were all.
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

  /// Reads page after page; one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let repository: LocalRepository<Model>
    private var ready: ArraySlice<Entry> = []
    /// Nil at the end.
    private var walk: LiveWalk? = LiveWalk()
    private var isPrepared = false

    fileprivate init(repository: LocalRepository<Model>) { self.repository = repository }

    /// - Throws: `.decodingFailed`, `.newerFormat` for a model that cannot be read: the next call
    ///   goes on behind it. `.corrupted`, `.io`, `.closed`: the next call tries the same again.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Model? {
      if !isPrepared {
        try await repository.prepare()
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
  /// The models, one after the other. Unlike ``loadAll()`` it takes little memory, and is not of
  /// one moment: see ``ModelSequence``.
  public nonisolated var models: ModelSequence<Model> { ModelSequence(repository: self) }
}
