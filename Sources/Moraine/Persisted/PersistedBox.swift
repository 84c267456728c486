import MoraineEngine
public import Synchronization

/// The stored state of a key.
struct StoredSetting: Sendable {
  /// The encoded value; nil when nothing is stored.
  var bytes: [UInt8]?
  /// Sequence number of the record, or of a moment at which the key had none.
  var sequence: UInt64
}

/// The value that all properties for one key of a store share.
///
/// Two locks: a thread that changes the value holds `writing` until the change is complete; `state`
/// is held for some instructions only. So readers never wait for a user's closure or for decoding.
/// Lock order: `writing`, then the space's lock or `state`; no other lock is taken while one of
/// those two is held.
@usableFromInline
final class PersistedBox<Value: Codable & Sendable>: Sendable {
  @usableFromInline
  struct State {
    @usableFromInline var value: Value
    /// The reason why `value` differs from the store; nil when it does not.
    var error: StoreError?
    var refusal = Refusal.none
    /// Number of sets in this process.
    var setCount: UInt64 = 0
    /// Number of the last set that is settled: it was saved, or another value has replaced it.
    var settledCount: UInt64 = 0
    /// Whether the last attempt to save has failed, and none is under way.
    var isUnsaved = false
    /// Sequence number up to which `value` includes the records of the key.
    var sequence: UInt64 = 0
    /// The setting of another writer that arrived while a set of this process was on its way.
    var late: StoredSetting?
    var changeCount: UInt64 = 0
    var waiters: [UInt64: UnsafeContinuation<Void, Never>] = [:]

    var isPending: Bool { settledCount < setCount }
  }

  /// The reason why setting has no effect.
  enum Refusal {
    case none
    /// The stored value cannot be read. `overwrite(with:)` and `reset()` replace it.
    case unreadable
    /// The store is not open, or the key belongs to another type.
    case impossible
  }

  @usableFromInline let state: Mutex<State>
  @usableFromInline let signal = PersistedSignal()
  let writing = Mutex<Void>(())
  let key: PersistedKey<Value>
  let place: String

  /// Creates the box of a key.
  ///
  /// - Parameter obstacle: the reason why the key cannot be used at all; nil when it can.
  init(
    _ key: PersistedKey<Value>, _ stored: StoredSetting?, in place: String,
    obstacle: StoreError? = nil
  ) {
    self.key = key
    self.place = place
    var state = State(value: key.defaultValue)
    if let obstacle {
      state.error = obstacle
      state.refusal = .impossible
    } else if let stored {
      Self.put(Self.read(stored, key, place), at: stored.sequence, key, into: &state)
    }
    self.state = Mutex(state)
  }

  @inlinable
  var value: Value {
    signal.access()
    return state.withLock { $0.value }
  }

  var error: StoreError? {
    signal.access()
    return state.withLock { $0.error }
  }

  /// Decodes a stored setting.
  ///
  /// - Returns: nil when nothing is stored.
  static func read(
    _ stored: StoredSetting, _ key: PersistedKey<Value>, _ place: String
  ) -> Result<Value?, StoreError> {
    guard let bytes = stored.bytes else { return .success(nil) }
    do throws(StoreError) {
      return .success(try key.format.decode(bytes, Key(key.name), place, as: "setting"))
    } catch {
      return .failure(
        StoreError(
          error.code,
          error.message + "; the stored value stays until you call "
            + "overwrite(with:) or reset()", file: error.file))
    }
  }

  /// Replaces the value by the stored one.
  static func put(
    _ found: Result<Value?, StoreError>, at sequence: UInt64, _ key: PersistedKey<Value>,
    into state: inout State
  ) {
    switch found {
    case .success(let value):
      state.value = value ?? key.defaultValue
      state.error = nil
      state.refusal = .none
    case .failure(let error):
      // The last value that could be read stays: it is a better guess than the default.
      state.error = error
      state.refusal = .unreadable
    }
    state.sequence = max(state.sequence, sequence)
    state.settledCount = state.setCount
    state.isUnsaved = false
    state.late = nil
    state.changeCount += 1
  }
}
