package import MoraineFormat
import Synchronization

/// What changes in a store, in the order it happened: puts and deletes of every keyspace or of one.
///
/// - From the moment the sequence is made, its first iterator sees every change, and each later one
///   from the moment it is made itself. Compaction leaves what was not seen yet as it is for ten
///   seconds and 64 MiB; an iterator that lags farther behind sees, as after a pause, at least the
///   latest state of every key that changed. So does one that began before the store was there.
///   With ``Store/contentsAndChanges()`` the moment is that of the first step.
/// - A delete is never silently missing: where compaction has dropped one, it throws
///   `.cursorExpired`.
/// - It holds a few hundred changes in memory, however far behind it is: it reads the log.
/// - It ends when the store is closed or the task is cancelled.
///
/// ```swift
/// for try await change in store.changes() { print(change.key, change.sequence) }
/// ```
public struct ChangeSequence: AsyncSequence, Sendable {
  public typealias Element = Change
  public typealias Failure = StoreError

  let store: Store
  let start: FeedStart
  /// Nil for all of them.
  private let keyspace: String?
  /// What happens before the first iterator is made is for that one.
  private let pin: FeedPinHandover

  init(store: Store, start: FeedStart, keyspace: String?) {
    self.store = store
    self.start = start
    self.keyspace = keyspace
    pin = FeedPinHandover(start.sequence.map { store.observers.pins.add($0) })
  }

  public func makeAsyncIterator() -> Iterator {
    let pin = pin.take() ?? start.sequence.map { store.observers.pins.add($0) }
    return Iterator(reader: FeedReader(store: store, start: start, keyspace: keyspace, pin: pin))
  }

  /// Reads the log as it is asked; one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let reader: FeedReader
    private var ready: ArraySlice<Change> = []

    fileprivate init(reader: FeedReader) {
      self.reader = reader
    }

    /// - Throws: `.cursorExpired`, `.cursorDiverged`, `.corrupted`, `.io`; `.storeReplaced` when
    ///   the store's files were deleted, moved or replaced.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Change? {
      if let change = ready.popFirst() { return change }
      ready = try await reader.read()[...]
      return ready.popFirst()
    }
  }
}

/// Where a feed begins.
enum FeedStart {
  /// Behind what this process knows of.
  case behind(UInt64)
  case cursor(ChangeCursor)
  /// With what is live now, as if all of it had just been stored.
  case everything

  /// What was seen before it; nil when that is not known yet.
  var sequence: UInt64? {
    switch self {
    case .behind(let sequence): sequence
    case .cursor(let cursor): cursor.sequence.rawValue
    case .everything: nil
    }
  }
}

extension Store {
  /// The changes of all keyspaces from now on, or from a cursor on, and those that come.
  ///
  /// - Parameter cursor: of the last change that was seen, in any run and any process; nil begins
  ///   with the next change.
  public nonisolated func changes(since cursor: ChangeCursor? = nil) -> ChangeSequence {
    ChangeSequence(store: self, start: start(cursor), keyspace: nil)
  }

  /// Everything that is live, by the age of its last change, and then the changes as they come.
  public nonisolated func contentsAndChanges() -> ChangeSequence {
    ChangeSequence(store: self, start: .everything, keyspace: nil)
  }

  /// The changes behind a sequence number of this life of the store, for tools: a program keeps the
  /// cursor.
  package nonisolated func changes(behind sequence: SequenceNumber) -> ChangeSequence {
    ChangeSequence(store: self, start: .behind(sequence.rawValue), keyspace: nil)
  }

  nonisolated func start(_ cursor: ChangeCursor?) -> FeedStart {
    if let cursor { return .cursor(cursor) }
    let shared = pipeline.sharedPage.withLock { $0?.load(.lastSequence) } ?? 0
    let appended = pipeline.appendedSequence.load(ordering: .acquiring)
    // A store that was opened for reading appends nothing, and may have no page to look at.
    let opened = observers.openedSequence.load(ordering: .acquiring)
    return .behind(max(shared, appended, opened))
  }
}

extension Keyspace {
  /// As ``Store/changes(behind:)``.
  package func changes(behind sequence: SequenceNumber) -> ChangeSequence {
    ChangeSequence(store: store, start: .behind(sequence.rawValue), keyspace: name)
  }

  /// The changes of this keyspace. As ``Store/changes(since:)``.
  public func changes(since cursor: ChangeCursor? = nil) -> ChangeSequence {
    ChangeSequence(store: store, start: store.start(cursor), keyspace: name)
  }

  /// Everything that is live in this keyspace, and then its changes. As
  /// ``Store/contentsAndChanges()``.
  public func contentsAndChanges() -> ChangeSequence {
    ChangeSequence(store: store, start: .everything, keyspace: name)
  }
}
