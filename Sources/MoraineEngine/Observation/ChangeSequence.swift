public import MoraineFormat
import Synchronization

/// The changes of a store in the order in which they happened: the puts and deletes of every
/// keyspace or of one.
///
/// - The first iterator returns every change from the moment when the sequence is created. Each
///   later iterator returns every change from the moment when the iterator is created. With
///   ``Store/contentsAndChanges()``, that moment is the iterator's first step. With a cursor, every
///   iterator begins after the cursor.
/// - For ten seconds, compaction keeps the changes that an iterator has not seen, up to 64 MiB. An
///   iterator that lags further returns at least the latest state of every key that changed. The
///   same holds after a pause, and for an iterator that began before the store existed.
/// - No delete is missing silently: where compaction has dropped a delete, the iterator throws
///   `.cursorExpired`.
/// - An iterator reads the log, so it holds only a few hundred changes in memory, however far it
///   lags, and at most a mebibyte of places where compaction wrote the log in the order of keys.
/// - The sequence ends when the store is closed or the task is cancelled.
/// ```swift
/// for try await change in store.changes() { print(change.key, change.sequence) }
/// ```
public struct ChangeSequence: AsyncSequence, Sendable {
  public typealias Element = Store.Change
  public typealias Failure = StoreError

  let store: Store
  let start: FeedStart
  /// Whether the start is the moment at which the sequence was created. A later iterator then
  /// begins at its own moment.
  private let beginsNow: Bool
  /// The name of the keyspace; nil for all keyspaces.
  private let keyspace: String?
  /// The pin of the first iterator. It keeps the changes that happen before that iterator exists.
  private let pin: FeedPinHandover

  init(store: Store, start: FeedStart, beginsNow: Bool = false, keyspace: String?) {
    assert(!beginsNow || start.sequence != nil, "a moment has no sequence number")
    self.store = store
    self.start = start
    self.beginsNow = beginsNow
    self.keyspace = keyspace
    pin = FeedPinHandover(start.sequence.map { store.observers.pins.add($0) })
  }

  public func makeAsyncIterator() -> Iterator {
    let first = pin.take()
    // Compaction need not keep what happened before a later iterator was created.
    let start = beginsNow && first == nil ? store.start(nil) : start
    let pin = first ?? start.sequence.map { store.observers.pins.add($0) }
    return Iterator(reader: FeedReader(store: store, start: start, keyspace: keyspace, pin: pin))
  }

  /// Reads the log on demand. One task at a time may use an iterator.
  public struct Iterator: AsyncIteratorProtocol {
    private let reader: FeedReader
    private var ready: ArraySlice<Store.Change> = []

    fileprivate init(reader: FeedReader) {
      self.reader = reader
    }

    /// - Throws: `.cursorExpired`, `.cursorDiverged`, `.corrupted`, `.io`; `.storeReplaced` when
    ///   the store's files were deleted, moved or replaced.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Store.Change? {
      if let change = ready.popFirst() { return change }
      ready = try await reader.read()[...]
      return ready.popFirst()
    }
  }
}

/// The start of a feed.
enum FeedStart {
  /// The changes after the operation with this sequence number.
  case after(UInt64)
  case cursor(ChangeCursor)
  /// All live records, as if they had just been stored.
  case everything

  /// The last sequence number before the start; nil when it is not known yet.
  var sequence: UInt64? {
    switch self {
    case .after(let sequence): sequence
    case .cursor(let cursor): cursor.sequence.rawValue
    case .everything: nil
    }
  }
}

extension Store {
  /// Returns the changes of all keyspaces, from now on or from a cursor on, including those that
  /// are still to come.
  ///
  /// - Parameter cursor: the cursor of the last change that the program has seen, in any run and
  ///   any process; nil begins with the next change.
  public nonisolated func changes(since cursor: ChangeCursor? = nil) -> ChangeSequence {
    ChangeSequence(store: self, start: start(cursor), beginsNow: cursor == nil, keyspace: nil)
  }

  /// Returns all live records, in the order of their last changes, and then the changes as they
  /// come.
  public nonisolated func contentsAndChanges() -> ChangeSequence {
    ChangeSequence(store: self, start: .everything, keyspace: nil)
  }

  /// Returns the changes after a sequence number of this epoch of the store. It is for tools; a
  /// program keeps the cursor.
  package nonisolated func changes(after sequence: SequenceNumber) -> ChangeSequence {
    ChangeSequence(store: self, start: .after(sequence.rawValue), keyspace: nil)
  }

  nonisolated func start(_ cursor: ChangeCursor?) -> FeedStart {
    if let cursor { return .cursor(cursor) }
    let shared = pipeline.sharedPage.withLock { $0?.load(.lastSequence) } ?? 0
    let appended = pipeline.appendedSequence.load(ordering: .acquiring)
    // A store that was opened for reading appends nothing, and it may have no shared page.
    let opened = observers.openedSequence.load(ordering: .acquiring)
    return .after(max(shared, appended, opened))
  }
}

extension Keyspace {
  /// Returns the changes of this keyspace after a sequence number, for tools.
  package func changes(after sequence: SequenceNumber) -> ChangeSequence {
    ChangeSequence(store: store, start: .after(sequence.rawValue), keyspace: name)
  }

  /// Returns the changes of this keyspace, like ``Store/changes(since:)``.
  public func changes(since cursor: ChangeCursor? = nil) -> ChangeSequence {
    ChangeSequence(
      store: store, start: store.start(cursor), beginsNow: cursor == nil, keyspace: name)
  }

  /// Returns the live records of this keyspace and then its changes, like
  /// ``Store/contentsAndChanges()``.
  public func contentsAndChanges() -> ChangeSequence {
    ChangeSequence(store: store, start: .everything, keyspace: name)
  }
}

extension Store {
  /// A put or a delete from the log.
  public struct Change: Sendable {
    /// The keyspace's name; empty for the unnamed one.
    public let keyspace: String
    /// The key, within its keyspace.
    public let key: Key
    /// The value that was stored; nil when the key was removed.
    public let value: [UInt8]?
    /// Sequence number of the put or the delete. The numbers rise, with gaps.
    public let sequence: SequenceNumber
    /// A cursor for ``Store/changes(since:)``, which then returns the changes after this one.
    public let cursor: ChangeCursor
    /// The time at which the value ends, in milliseconds since 1970; 0 for a value that does not
    /// end.
    package var expiryMilliseconds: UInt64 = 0

    /// Whether the key was removed.
    public var isRemoval: Bool { value == nil }
  }
}

/// A place in a store's history. A program that saves a cursor has seen everything up to it.
///
/// A cursor is opaque and `Codable`: save it, and continue from it in another run or in another
/// process. When a power failure loses changes that were not durable yet, the store refuses a
/// cursor of such a change with `.cursorDiverged`, even after it has used their sequence numbers
/// again.
public struct ChangeCursor: Hashable, Codable, Sendable {
  let storeID: StoreIdentifier
  let epoch: UInt64
  /// The name of the life of the store in which the change was written; nil in a cursor of an
  /// earlier version. Two stores that were restored from one backup have equal epochs.
  let life: StoreIdentifier?
  /// The number of the last unclean stop that the store had recovered from; nil in a cursor of an
  /// earlier version, which did not record it.
  let cut: UInt64?
  /// The last operation that the program has seen.
  public let sequence: SequenceNumber

  init(
    storeID: StoreIdentifier, epoch: UInt64, life: StoreIdentifier?, cut: UInt64?,
    sequence: UInt64
  ) {
    self.storeID = storeID
    self.epoch = epoch
    self.life = life
    self.cut = cut
    self.sequence = SequenceNumber(rawValue: sequence)
  }

  private enum CodingKeys: String, CodingKey {
    case store, epoch, life, cut, sequence
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let store = try container.decode(String.self, forKey: .store)
    storeID = try Self.identifier(store, .store, in: container)
    epoch = try container.decode(UInt64.self, forKey: .epoch)
    let life = try container.decodeIfPresent(String.self, forKey: .life)
    self.life = try life.map { try Self.identifier($0, .life, in: container) }
    cut = try container.decodeIfPresent(UInt64.self, forKey: .cut)
    let rawValue = try container.decode(UInt64.self, forKey: .sequence)
    guard rawValue <= SequenceNumber.max.rawValue else {
      throw DecodingError.dataCorruptedError(
        forKey: .sequence, in: container, debugDescription: "above the largest sequence number")
    }
    sequence = SequenceNumber(rawValue: rawValue)
  }

  private static func identifier(
    _ text: String, _ key: CodingKeys, in container: KeyedDecodingContainer<CodingKeys>
  ) throws -> StoreIdentifier {
    guard let identifier = StoreIdentifier(hexadecimal: text) else {
      throw DecodingError.dataCorruptedError(
        forKey: key, in: container, debugDescription: "not 32 hexadecimal digits")
    }
    return identifier
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(storeID.description, forKey: .store)
    try container.encode(epoch, forKey: .epoch)
    try container.encodeIfPresent(life?.description, forKey: .life)
    try container.encodeIfPresent(cut, forKey: .cut)
    try container.encode(sequence.rawValue, forKey: .sequence)
  }

  /// Whether both cursors name the same place. The life and the number of recoveries are not
  /// compared, because a cursor of an earlier version has none.
  public static func == (left: Self, right: Self) -> Bool {
    left.storeID == right.storeID && left.epoch == right.epoch && left.sequence == right.sequence
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(storeID)
    hasher.combine(epoch)
    hasher.combine(sequence)
  }
}
