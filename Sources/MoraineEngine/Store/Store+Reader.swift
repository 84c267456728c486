import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Reads the present state of a store from any thread, without a call of the actor.
  ///
  /// ```swift
  /// let reader = try await store.reader()
  /// // On the main actor, in a synchronous function, on any thread:
  /// let name = try reader.value(forKey: "name")
  /// ```
  ///
  /// A reader sees every write that has returned, in this process, before the read begins, and it
  /// sees all operations of a batch or none. It waits for no other thread, except while a batch is
  /// being added, and for the disk where the record is not in memory. Where segments are not mapped
  /// (``Store/Configuration/IOMode/positional``), the readers take turns, and read the file.
  ///
  /// The writes of other processes that share the store become visible when this process has
  /// applied them: a read that finds news of them begins that, and does not wait for it. A store
  /// that another process creates later becomes visible with the next call of the actor. Where
  /// segments are not mapped, a read may throw `.corrupted` after another process has removed a
  /// file by compaction, until this process has applied that.
  ///
  /// While a store has a reader, its writes are a little slower, and the index may take twice its
  /// memory: writers copy a page of it before they change it. One reader serves a whole program. It
  /// keeps the store open; the last copy ends the reading. For several reads at one moment, and for
  /// ranges, take a snapshot (``Store/snapshot()``).
  public struct Reader: Sendable {
    private let handle: ReaderHandle
    private let keyspace: String

    init(_ handle: ReaderHandle, _ keyspace: String) {
      (self.handle, self.keyspace) = (handle, keyspace)
    }

    /// Returns a reader of a keyspace of the same store; the empty name is the unnamed keyspace.
    public func keyspace(named name: String) -> Store.Reader { Store.Reader(handle, name) }

    /// Returns the value of a key, or nil when the key does not exist.
    ///
    /// - Throws: `.corrupted` with file and offset when the bytes differ from those that were
    ///   written; `.io`, `.closed`, `.suspended`, `.usedAfterFork`; `.limitExceeded` when the
    ///   system gave the store no memory for its readers.
    /// - Complexity: O(key + value).
    public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
      try withRecord(key) { (found, segments) throws(StoreError) in
        guard let found else { return nil }
        return try segments.value(of: found.record, at: found.address)
      }
    }

    /// Calls the body with the value of a key. No byte is copied when the value is stored
    /// uncompressed and its segment is mapped.
    ///
    /// - Returns: the result of the body, or nil when the key does not exist.
    /// - Throws: the errors of ``value(forKey:)``, and those of the body.
    public func withValue<Result>(
      forKey key: Key, _ body: (RawSpan) throws -> Result
    ) throws -> Result? {
      let stored = try withRecord(key) { (found, segments) throws(StoreError) -> StoredValue? in
        guard let found else { return nil }
        return try segments.storedValue(of: found)
      }
      return try stored?.read(body)
    }

    /// Returns the value of a key and the number of the operation that has set it, or nil when the
    /// key does not exist. Throws the errors of ``value(forKey:)``.
    public func versionedValue(forKey key: Key) throws(StoreError) -> VersionedValue? {
      try versionedValue(forKey: key, knowing: nil).map { found in
        guard case .value(let value) = found else {
          fatalError("a value is known to a caller that knows none")
        }
        return value
      }
    }

    /// Returns whether a key exists. Throws the errors of ``value(forKey:)``.
    public func contains(_ key: Key) throws(StoreError) -> Bool {
      try withRecord(key) { (found, _) throws(StoreError) in found != nil ? true : nil } ?? false
    }

    /// The value of a key for a caller that keeps values in memory.
    package enum Version {
      /// The operation that the caller knows has set the value.
      case known
      case value(VersionedValue)
    }

    /// Returns the value of a key, unless the caller knows it.
    ///
    /// - Parameter sequence: the number of the operation whose value the caller knows.
    package func versionedValue(
      forKey key: Key, knowing sequence: SequenceNumber?
    ) throws(StoreError) -> Version? {
      try withRecord(key) { (found, segments) throws(StoreError) -> Version? in
        guard let found else { return nil }
        let number = SequenceNumber(rawValue: found.record.header.sequence)
        if number == sequence { return .known }
        return .value(
          VersionedValue(
            value: try segments.value(of: found.record, at: found.address), sequence: number,
            expiryMilliseconds: found.record.expiryMilliseconds))
      }
    }

    @inline(__always)
    private func withRecord<Value>(
      _ key: Key,
      _ body: (FoundRecord?, borrowing SnapshotSegments) throws(StoreError) -> Value?
    ) throws(StoreError) -> Value? {
      try handle.checkProcess()
      handle.applyNews()
      return try handle.views.read { (view) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try view.withRecord(bytes, keyspace, body)
        }
      }
    }
  }

  /// Returns a reader of the unnamed keyspace, which other threads can use.
  ///
  /// - Throws: `.closed`, `.suspended`; in a shared store the errors of reading what other
  ///   processes have written.
  /// - Complexity: O(pages of the index), the first time; otherwise O(1).
  public func reader() async throws(StoreError) -> Store.Reader {
    try await checkOpen()
    let handle = ReaderHandle(self, readers.views)
    // Also after a freezing that failed.
    if handle.isFirst { refreshReaders() } else { refreshStaleReaders() }
    return Store.Reader(handle, "")
  }
}

extension Keyspace {
  /// Returns a reader of the keyspace, like ``Store/reader()``.
  public func reader() async throws(StoreError) -> Store.Reader {
    try await store.reader().keyspace(named: name)
  }
}

/// A reader of a store, as its copies share it.
final class ReaderHandle: Sendable {
  let views: LiveViews
  let isFirst: Bool
  private let store: Store
  private let isShared: Bool
  private let forkGeneration = CurrentProcess.forkGeneration

  init(_ store: Store, _ views: LiveViews) {
    (self.store, self.views) = (store, views)
    isShared = store.isShared
    isFirst = views.begin()
  }

  deinit {
    // A forked child must not wait for a lock that a thread of the parent may have held.
    if isInItsProcess { views.end() }
  }

  @inline(__always)
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  @inline(__always)
  func checkProcess() throws(StoreError) {
    guard isInItsProcess else { throw .usedAfterFork }
  }

  /// Begins to apply the writes of other processes, if there are any.
  @inline(__always)
  func applyNews() {
    if isShared, store.observers.others.hasNews { beginToApplyNews() }
  }

  @inline(never)
  private func beginToApplyNews() {
    guard views.beginToApplyNews() else { return }
    Task { [store, views] in
      do throws(StoreError) { try await store.applyPeerWrites() } catch {
        // The next call of the actor gets the error. A reader shows what this process knows.
      }
      views.endToApplyNews()
    }
  }
}

extension Store {
  /// Shows the readers the changes that they lack.
  @inline(__always)
  func refreshStaleReaders() {
    if engine != nil, engine!.recent.isStale { refreshReaders() }
  }

  /// Freezes the index for the readers again. When the system gives no memory for that, the readers
  /// get the error until the next write.
  func refreshReaders() {
    guard readers.views.areWanted else {
      if engine != nil { engine!.recent.stop() }
      return
    }
    let clock = observers.clock
    let view: LiveView
    do throws(StoreError) {
      try checkUsable()
      // A replay that failed may have ended inside a batch. The readers keep what they have until
      // the store is read again.
      if engine?.isFollowedInPart == true { return }
      view =
        engine == nil
        ? LiveView(nil, clock)
        : try LiveView(
          &engine!, readers.live, recentKeys: readers.views.recentKeys.load(ordering: .relaxed))
    } catch {
      view = LiveView(error, clock)
      if engine != nil { engine!.recent.requestRefresh() }
    }
    readers.views.publish(view)
  }
}
