import MoraineEngine
public import Synchronization

/// What a store holds for a key.
struct StoredSetting: Sendable {
  /// Nil: nothing.
  var bytes: [UInt8]?
  /// Of the record, or of a moment at which there was none.
  var sequence: UInt64
}

/// The one value that all share who name a key of a store.
///
/// Two locks: `writing` is held by whoever is about to change the value, for as long as that takes,
/// `state` for some instructions. So readers never wait for a user's closure or for decoding.
/// Order: `writing`, then the space's lock or `state`; nothing is taken below those.
@usableFromInline
final class PersistedBox<Value: Codable & Sendable>: Sendable {
  @usableFromInline
  struct State {
    @usableFromInline var value: Value
    /// Why `value` is not what the store holds, when it is not.
    var error: StoreError?
    var refusal = Refusal.none
    /// Counts what was set here, and up to where it is over: saved, or given up for another value.
    var setCount: UInt64 = 0
    var settledCount: UInt64 = 0
    /// Whether the last attempt to save has failed, and none is under way.
    var isUnsaved = false
    /// The value stands for the records up to here.
    var sequence: UInt64 = 0
    /// What came from others while something set here was on its way into the log.
    var late: StoredSetting?
    var changeCount: UInt64 = 0
    var waiters: [UInt64: UnsafeContinuation<Void, Never>] = [:]

    var isPending: Bool { settledCount < setCount }
  }

  /// Why setting changes nothing.
  enum Refusal {
    case none
    /// There is something that cannot be read; it may be given up.
    case unreadable
    /// The store is not open, or the key is another type's.
    case impossible
  }

  @usableFromInline let state: Mutex<State>
  @usableFromInline let signal = PersistedSignal()
  let writing = Mutex<Void>(())
  let key: PersistedKey<Value>
  let place: String

  /// - Parameter obstacle: why the key cannot be used at all.
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

  /// - Returns: nil where nothing is stored.
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
          error.message + "; it is kept, and nothing is saved over it before "
            + "overwrite(with:) or reset()", file: error.file))
    }
  }

  /// Takes what the store holds for the value.
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
      // The last value that could be read stays: it is nearer to the truth than the default.
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
