import MoraineEngine
import Synchronization

/// A setting that was set and is not written yet.
struct PendingSetting: Sendable {
  let key: Key
  /// Number of the set among all sets of its box.
  let count: UInt64
  let box: any SettingBox
  /// Encodes the value; nil removes the key.
  let encoded: @Sendable () throws(StoreError) -> [UInt8]?

  init(
    key: Key, count: UInt64, box: any SettingBox,
    _ encoded: @escaping @Sendable () throws(StoreError) -> [UInt8]?
  ) {
    self.key = key
    self.count = count
    self.box = box
    self.encoded = encoded
  }
}

/// A box, without the type of its value.
protocol SettingBox: AnyObject, Sendable {
  /// Begins an attempt to save.
  ///
  /// - Returns: false when another value has replaced this one before it was saved.
  func beginSaving(_ count: UInt64) -> Bool
  /// Ends an attempt that succeeded.
  ///
  /// - Parameter sequence: nil when there was nothing to write.
  func saved(_ count: UInt64, at sequence: UInt64?)
  /// Ends an attempt that failed.
  ///
  /// - Returns: whether the value must be kept for another attempt.
  func couldNotSave(_ count: UInt64, _ error: StoreError) -> Bool
  func take(_ stored: StoredSetting, always: Bool)
  func fail(_ error: StoreError)
  /// Forgets the sequence numbers, because those of another store begin again.
  func forgetStore()
  /// The type of the value, for messages.
  var kind: String { get }
}

extension PersistedBox: SettingBox {
  func forgetStore() {
    state.withLock { state in
      state.sequence = 0
      state.late = nil
    }
  }

  func beginSaving(_ count: UInt64) -> Bool {
    state.withLock { state in
      guard state.settledCount < count else { return false }
      state.isUnsaved = false
      return true
    }
  }

  func saved(_ count: UInt64, at sequence: UInt64?) {
    let (late, wasFailed) = state.withLock { state -> (StoredSetting?, Bool) in
      state.sequence = max(state.sequence, sequence ?? 0)
      // A later set is on its way too; its end settles the state.
      guard count == state.setCount else { return (nil, false) }
      state.settledCount = count
      let wasFailed = state.error != nil
      state.error = nil
      return (state.takeLate(), wasFailed)
    }
    if wasFailed { signal.tell() }
    if let late { take(late) }
  }

  func couldNotSave(_ count: UInt64, _ error: StoreError) -> Bool {
    let (late, keeps) = state.withLock { state -> (StoredSetting?, Bool) in
      state.error = error
      guard count == state.setCount else { return (nil, false) }
      state.isUnsaved = true
      return (state.takeLate(), true)
    }
    signal.tell()
    // The other writer's value is in the log, and the one that was set here is not.
    if let late { take(late) }
    return keeps
  }
}

extension PersistedBox.State {
  /// Removes and returns the late setting of another writer if it is newer than the value.
  fileprivate mutating func takeLate() -> StoredSetting? {
    defer { late = nil }
    return late.flatMap { $0.sequence > sequence ? $0 : nil }
  }
}
