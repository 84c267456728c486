import MoraineEngine
import Synchronization
import SystemPackage

/// The settings of one keyspace in this process: what it holds, who shows it, and what is to be
/// written.
///
/// All of it is in memory, as bytes until somebody asks for a key.
final class PersistedSpace: Sendable {
  /// Says which store to open, and how.
  typealias Source = @Sendable () throws(StoreError) -> (path: FilePath, wish: StoreWish)

  struct State {
    /// Nil: it could not be opened, and `obstacle` says why.
    var keyspace: Keyspace?
    var obstacle: StoreError?
    /// Of keys that nobody has asked for.
    var stored: [Key: StoredSetting] = [:]
    var boxes: [Key: any SettingBox] = [:]
    var following: Task<Void, Never>?
    var queue = SettingQueue()
  }

  let state = Mutex(State())
  /// For messages.
  let place: String
  /// Where the store is opened again; nil for one that was given.
  let source: Source?

  init(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, place: String, source: Source?
  ) {
    self.place = place
    self.source = source
    adopt(keyspace, contents)
  }

  /// One that is not open.
  init(_ obstacle: StoreError, place: String, source: Source?) {
    self.place = place
    self.source = source
    state.withLock { $0.obstacle = obstacle }
  }

  deinit { state.withLock { $0.following }?.cancel() }

  var keyspace: Keyspace? { state.withLock { $0.keyspace } }

  /// Whether the store was open and cannot be written to any more: it is closed, or its files were
  /// replaced.
  var isOver: Bool { keyspace?.store.isOver ?? false }

  /// The keyspace, or why there is none.
  func openKeyspace() throws(StoreError) -> Keyspace {
    let (keyspace, obstacle) = state.withLock { ($0.keyspace, $0.obstacle) }
    if let keyspace { return keyspace }
    throw obstacle ?? StoreError(.closed, "the settings are not open", file: place)
  }

  /// The value that all share who name a key.
  func box<Value: Codable & Sendable>(_ key: PersistedKey<Value>) -> PersistedBox<Value> {
    let name = Key(key.name)
    while true {
      let (known, stored, obstacle) = state.withLock {
        ($0.boxes[name], $0.stored[name], $0.obstacle)
      }
      if let known { return shared(known, key) }
      // Decoding is the user's code: not under the lock.
      let box = PersistedBox(key, stored, in: place, obstacle: obstacle)
      let isNew = state.withLock { state in
        guard state.boxes[name] == nil, state.stored[name]?.sequence == stored?.sequence,
          (state.obstacle == nil) == (obstacle == nil)
        else { return false }
        state.boxes[name] = box
        state.stored[name] = nil
        return true
      }
      if isNew { return box }
    }
  }

  /// The box that is there, or one by itself when it is another's.
  private func shared<Value>(
    _ known: any SettingBox, _ key: PersistedKey<Value>
  ) -> PersistedBox<Value> {
    if let box = known as? PersistedBox<Value>, box.key.format.version == key.format.version {
      return box
    }
    let obstacle = StoreError(
      .decodingFailed,
      "the setting '\(key.name)' is \(known.kind) elsewhere in this program, and here "
        + "\(Value.self), version \(key.format.version); declare the key once, or name another",
      file: place)
    return PersistedBox(key, nil, in: place, obstacle: obstacle)
  }
}

extension PersistedBox {
  var kind: String { "\(Value.self), version \(key.format.version)" }
}
