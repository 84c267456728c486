package import MoraineFormat
import MoraineStorage
package import SystemPackage

/// The contents of a keyspace at one moment, and the changes from then on.
package struct KeyspaceContents: Sendable {
  /// Live records in the order in which they were stored, the last one last.
  package let entries: [Store.Entry]
  /// Sequence number of the store's last operation at that moment.
  package let sequence: UInt64
  package let feed: KeyspaceFeed

  init(_ entries: [Store.Entry], of keyspace: Keyspace, at sequence: UInt64) {
    self.entries = entries
    self.sequence = sequence
    feed = KeyspaceFeed(keyspace, after: sequence)
  }
}

/// The changes of a keyspace after one moment, in groups. One task may use a feed.
///
/// From that moment on, compaction keeps the changes for the feed, as it does for an iterator.
package final class KeyspaceFeed: Sendable {
  private let reader: FeedReader

  fileprivate init(_ keyspace: Keyspace, after sequence: UInt64) {
    reader = FeedReader(keyspace, after: FeedPlace(sequence: sequence))
  }

  /// The number of the last operation that was read. Not for use during a call of ``next()``.
  package var sequence: SequenceNumber { SequenceNumber(rawValue: reader.sequence ?? 0) }

  /// Waits for changes and returns them. An empty array means that the store was closed or the task
  /// was cancelled.
  ///
  /// - Throws: the errors of ``ChangeSequence/Iterator/next(isolation:)``.
  package func next() async throws(StoreError) -> [Store.Change] { try await reader.read() }
}

extension Keyspace {
  /// Returns a feed of the changes after an operation.
  package func feed(after sequence: SequenceNumber) -> KeyspaceFeed {
    KeyspaceFeed(self, after: sequence.rawValue)
  }

  /// Returns all live records at one moment, and a feed of the changes after it.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  /// - Complexity: O(bytes of the log).
  package func contents() async throws(StoreError) -> KeyspaceContents {
    try await store.contents(of: self)
  }
}

extension Store {
  fileprivate func contents(of keyspace: Keyspace) async throws(StoreError) -> KeyspaceContents {
    let (entries, sequence) = try await entries(in: keyspace.name)
    return KeyspaceContents(entries, of: keyspace, at: sequence)
  }

  /// Opens a store like ``init(at:configuration:)``, and reads one of its keyspaces without a hop
  /// to the actor.
  ///
  /// Safety: the caller has exclusive access to the state while it is read, because the actor does
  /// not exist yet.
  package static func opened(
    at directory: FilePath, configuration: Store.Configuration, reading name: String
  ) throws(StoreError) -> (store: Store, contents: KeyspaceContents) {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    try storing { () throws(StorageError) in try ThreadPool.current.secure() }
    let opener = try opener(DiskStorage(), directory, configuration, pipeline)
    var entries: [Store.Entry] = []
    var sequence: UInt64 = 0
    var state: EngineState?
    do throws(StoreError) {
      state = try opener.open(creating: false)
      if state != nil {
        sequence = state!.log.lastSequence
        if let id = state!.keyspaces.id(of: name) { entries = try state!.entries(in: id) }
      }
    } catch {
      pipeline.stop()
      throw error
    }
    let store = Store(opener: opener, pipeline: pipeline, state: state)
    let keyspace = Keyspace(store: store, name: name)
    return (store, KeyspaceContents(entries, of: keyspace, at: sequence))
  }

  /// Returns an empty store in memory. The caller holds the only reference to it.
  package static func emptyInMemory() -> (store: Store, contents: KeyspaceContents) {
    let store = Store.inMemory()
    return (store, KeyspaceContents([], of: Keyspace(store: store, name: ""), at: 0))
  }
}
