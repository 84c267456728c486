import MoraineFormat
import MoraineStorage
package import SystemPackage

/// What a keyspace held at one moment, and what happened to it from then on.
package struct KeyspaceContents: Sendable {
  /// In the order of the log: what was stored last comes last.
  package let entries: [Entry]
  /// Of the store's last operation at that moment.
  package let sequence: UInt64
  package let feed: KeyspaceFeed

  init(_ entries: [Entry], of keyspace: Keyspace, at sequence: UInt64) {
    self.entries = entries
    self.sequence = sequence
    feed = KeyspaceFeed(keyspace, behind: sequence)
  }
}

/// The changes of a keyspace behind a moment, as many at a time as there are; for one task.
///
/// Compaction leaves them to it from the moment on, as it does for an iterator that was begun.
package final class KeyspaceFeed: Sendable {
  private let reader: FeedReader

  fileprivate init(_ keyspace: Keyspace, behind sequence: UInt64) {
    reader = FeedReader(keyspace, behind: FeedPlace(sequence: sequence))
  }

  /// Waits for changes. None: the store was closed, or the task cancelled.
  ///
  /// - Throws: as ``ChangeSequence/Iterator/next(isolation:)``.
  package func next() async throws(StoreError) -> [Change] { try await reader.read() }
}

extension Keyspace {
  /// Everything that is live at one moment, and what comes then.
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

  /// Opens a store as ``init(at:configuration:)`` does, and reads a keyspace of it without a hop.
  ///
  /// Safety: the state is read while the caller alone has it, before there is an actor.
  package static func opened(
    at directory: FilePath, configuration: Configuration, reading name: String
  ) throws(StoreError) -> (store: Store, contents: KeyspaceContents) {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    try storing { () throws(StorageError) in try ThreadPool.current.secure() }
    let opener = try opener(DiskStorage(), directory, configuration, pipeline)
    var entries: [Entry] = []
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

  /// A store in memory that nobody else has yet: there is nothing in it.
  package static func emptyInMemory() -> (store: Store, contents: KeyspaceContents) {
    let store = Store.inMemory()
    return (store, KeyspaceContents([], of: Keyspace(store: store, name: ""), at: 0))
  }
}
