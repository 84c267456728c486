import MoraineEngine
import Synchronization

/// Something that was set and is to be written.
struct PendingSetting: Sendable {
  let key: Key
  /// Of the sets of its box, which one it comes from.
  let count: UInt64
  let box: any SettingBox
  /// Nil removes the key.
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

/// What a space knows of its boxes.
protocol SettingBox: AnyObject, Sendable {
  /// - Returns: false when it was given up for another value meanwhile.
  func beginSaving(_ count: UInt64) -> Bool
  /// - Parameter sequence: nil when there was nothing to write.
  func saved(_ count: UInt64, at sequence: UInt64?)
  /// - Returns: whether to try again some time.
  func couldNotSave(_ count: UInt64, _ error: StoreError) -> Bool
  func take(_ stored: StoredSetting, always: Bool)
  func fail(_ error: StoreError)
  /// The sequence numbers of another store begin again.
  func forgetStore()
  /// The type of its value, for messages.
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
      // What was set since then is on its way too, and says the rest.
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
    // It is in the log, and what was set here is not.
    if let late { take(late) }
    return keeps
  }
}

extension PersistedBox.State {
  /// What came from others behind what the value stands for.
  fileprivate mutating func takeLate() -> StoredSetting? {
    defer { late = nil }
    return late.flatMap { $0.sequence > sequence ? $0 : nil }
  }
}
