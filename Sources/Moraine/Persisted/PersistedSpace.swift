import MoraineEngine
import Synchronization
import SystemPackage

/// The settings of one keyspace in this process: the stored values, the boxes that show them, and
/// the queue of settings to be written.
///
/// All settings are in memory. A setting is kept as bytes until its key is first used.
final class PersistedSpace: Sendable {
  /// Returns the path of the store to open, and how to open it.
  typealias Source = @Sendable () throws(StoreError) -> (path: FilePath, request: StoreRequest)

  struct State {
    /// The keyspace; nil when the store could not be opened.
    var keyspace: Keyspace?
    /// The error of the opening; nil when the store could be opened.
    var obstacle: StoreError?
    /// Settings whose keys have no box yet.
    var stored: [Key: StoredSetting] = [:]
    var boxes: [Key: any SettingBox] = [:]
    var following: Task<Void, Never>?
    var queue = SettingQueue()
  }

  let state = Mutex(State())
  /// Name of the place, for messages.
  let place: String
  /// Path and configuration for opening the store again; nil for a store that was given as a
  /// keyspace.
  let source: Source?

  init(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, place: String, source: Source?
  ) {
    self.place = place
    self.source = source
    adopt(keyspace, contents)
  }

  /// Creates a space whose store could not be opened.
  init(_ obstacle: StoreError, place: String, source: Source?) {
    self.place = place
    self.source = source
    state.withLock { $0.obstacle = obstacle }
  }

  deinit { state.withLock { $0.following }?.cancel() }

  var keyspace: Keyspace? { state.withLock { $0.keyspace } }

  /// Whether the store was open and cannot be written any more: it is closed, or its files were
  /// replaced.
  var isOver: Bool { keyspace?.store.isOver ?? false }

  /// Returns the keyspace, or throws the reason why it is not open.
  func openKeyspace() throws(StoreError) -> Keyspace {
    let (keyspace, obstacle) = state.withLock { ($0.keyspace, $0.obstacle) }
    if let keyspace { return keyspace }
    throw obstacle ?? StoreError(.closed, "the settings are not open", file: place)
  }

  /// Returns the box that all properties for a key share.
  func box<Value: Codable & Sendable>(_ key: PersistedKey<Value>) -> PersistedBox<Value> {
    let name = Key(key.name)
    while true {
      let (known, stored, obstacle) = state.withLock {
        ($0.boxes[name], $0.stored[name], $0.obstacle)
      }
      if let known { return shared(known, key) }
      // Decoding runs the user's code, so it must not run under the lock.
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

  /// Returns the existing box, or a separate box with an error when the existing one has another
  /// type or version.
  private func shared<Value>(
    _ known: any SettingBox, _ key: PersistedKey<Value>
  ) -> PersistedBox<Value> {
    if let box = known as? PersistedBox<Value>, box.key.format.version == key.format.version {
      return box
    }
    let obstacle = StoreError(
      .decodingFailed,
      "the setting '\(key.name)' is \(known.kind) elsewhere in this program, but here "
        + "\(Value.self), version \(key.format.version); declare the key once, or name another",
      file: place)
    return PersistedBox(key, nil, in: place, obstacle: obstacle)
  }
}

extension PersistedBox {
  var kind: String { "\(Value.self), version \(key.format.version)" }
}
