import MoraineEngine
import Synchronization

extension PersistedSpace {
  /// Returns the box that all properties for a key share.
  func box<Value: Codable & Sendable>(_ key: PersistedKey<Value>) -> PersistedBox<Value> {
    let name = Key(key.name)
    while true {
      let (known, stored, obstacle, stopError) = state.withLock {
        ($0.boxes[name], $0.stored[name], $0.obstacle, $0.stopError)
      }
      if let known { return shared(known, key) }
      // Decoding runs the user's code, so it must not run under the lock.
      let box = PersistedBox(
        key, stored, in: place, obstacle: obstacle, stopError: stopError)
      let isNew = state.withLock { state in
        guard state.boxes[name] == nil, state.stored[name]?.sequence == stored?.sequence,
          (state.obstacle == nil) == (obstacle == nil),
          state.stopError?.code == stopError?.code
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
