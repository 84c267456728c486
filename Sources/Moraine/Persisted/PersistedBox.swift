import MoraineEngine
public import Synchronization

/// The stored state of a key.
struct StoredSetting: Sendable {
  /// The encoded value; nil when nothing is stored.
  var bytes: [UInt8]?
  /// Sequence number of the record, or of a moment at which the key had none.
  var sequence: UInt64
  /// The time at which the record ends, in milliseconds since 1970; 0 for one that does not end.
  var expiry: UInt64 = 0
  /// The time at which the key had no record, in milliseconds since 1970; 0 where it is not known.
  var absenceTime: UInt64 = 0
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
    /// Whether the store had a record of the key when its state was last known.
    var hasRecord = false
    /// The time at which that record ends, in milliseconds since 1970; 0 for one that does not end.
    var expiry: UInt64 = 0
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
  /// - Parameters:
  ///   - obstacle: the reason why the key cannot be used at all; nil when it can.
  ///   - stopError: the error that has ended the following of the store, see ``fail(_:)``.
  init(
    _ key: PersistedKey<Value>, _ stored: StoredSetting?, in place: String,
    obstacle: StoreError? = nil, stopError: StoreError? = nil
  ) {
    self.key = key
    self.place = place
    var state = State(value: key.defaultValue)
    if let obstacle {
      state.error = obstacle
      state.refusal = .impossible
    } else {
      if let stored { Self.put(Self.read(stored, key, place), of: stored, key, into: &state) }
      if let stopError { state.fail(stopError) }
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
    _ found: Result<Value?, StoreError>, of stored: StoredSetting, _ key: PersistedKey<Value>,
    into state: inout State
  ) {
    switch found {
    case .success(let value):
      state.value = value ?? key.defaultValue
      state.hasRecord = value != nil
      state.error = nil
      state.refusal = .none
    case .failure(let error):
      state.hasRecord = true
      // The last value that could be read stays: it is a better guess than the default.
      state.error = error
      state.refusal = .unreadable
    }
    state.expiry = stored.expiry
    state.sequence = max(state.sequence, stored.sequence)
    state.settledCount = state.setCount
    state.isUnsaved = false
    state.late = nil
    state.changeCount += 1
  }
}

extension PersistedBox {
  func set(_ value: Value, in space: PersistedSpace) {
    change(in: space) { $0 = value }
  }

  /// Changes the value and schedules the save. When the body throws, nothing changes.
  ///
  /// - Parameter givesUp: whether a stored value that cannot be read may be overwritten.
  /// - Parameter removes: whether the save removes the record instead of writing a value.
  func change<Result, Failure: Error>(
    in space: PersistedSpace, givesUp: Bool = false, removes: Bool = false,
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    defer { signal.notifyObservers() }
    return try writing.withLock { (_) throws(Failure) in
      var (value, refusal) = state.withLock { ($0.value, $0.refusal) }
      let result = try body(&value)
      if refusal == .impossible || (refusal == .unreadable && !givesUp) { return result }
      let waiting = state.withLock { state in
        state.value = value
        // The space saves it.
        state.error = nil
        state.refusal = .none
        state.setCount += 1
        state.isUnsaved = false
        return state.takeWaiters()
      }
      // Under `writing`: when two threads set the value at once, the log has both in the same
      // order as the value.
      space.save(setting(removes ? nil : value))
      waiting.forEach { $0.resume() }
      return result
    }
  }

  /// Returns the value to be written, with the number of the set that it comes from.
  private func setting(_ value: Value?) -> PendingSetting {
    let count = state.withLock { $0.setCount }
    let format = key.format
    let (name, place) = (key.name, place)
    return PendingSetting(
      key: Key(name), count: count, box: self,
      isStored: { stored, encoded in
        if stored == encoded { return true }
        // The members of an object may be in another order. A longer text has another value.
        guard let value, stored.count == encoded.count else { return false }
        do throws(StoreError) {
          return format.areSame(
            value, try format.decode(stored, Key(name), place, as: "setting"))
        } catch {
          return false
        }
      },
      encoded: { () throws(StoreError) in
        guard let value else { return nil }
        return try format.encode(value, Key(name), place, as: "setting")
      })
  }

  /// Replaces the value by a stored one if that is newer.
  ///
  /// - Parameter always: whether a stored value that is known is taken too. A value that could not
  ///   be saved is then discarded.
  func take(_ stored: StoredSetting, always: Bool = false) {
    if !isNews(stored, always) { return }
    defer { signal.notifyObservers() }
    writing.withLock { _ in
      guard isNews(stored, always) else { return }
      let found = Self.read(stored, key, place)
      let waiting = state.withLock { state in
        Self.put(found, of: stored, key, into: &state)
        return state.takeWaiters()
      }
      waiting.forEach { $0.resume() }
    }
  }

  private func isNews(_ stored: StoredSetting, _ always: Bool) -> Bool {
    state.withLock { state in
      let isUnderWay = state.isPending && !state.isUnsaved
      if isUnderWay {
        // The order of the two values is known when the one that was set here is in the log.
        if stored.sequence > max(state.sequence, state.late?.sequence ?? 0) {
          state.late = stored
          if stored.bytes != nil { (state.hasRecord, state.expiry) = (true, stored.expiry) }
        }
        return false
      }
      // Without a removal the key has no newer value than the one that could not be saved.
      if stored.bytes == nil, !always, state.isPending, !state.isRemoval(stored) { return false }
      // An older one was read before a newer one arrived.
      if stored.sequence > state.sequence || (always && stored.sequence == state.sequence) {
        return true
      }
      // The same record again, after an error that may be over.
      return stored.sequence == state.sequence && state.error != nil && !state.isUnsaved
    }
  }

  /// Records the error that ended the following of the store. The value stays. Sequences return it
  /// once more, so that their readers look at the error.
  func fail(_ error: StoreError) {
    let waiting = state.withLock { state -> [UnsafeContinuation<Void, Never>] in
      state.fail(error) ? state.takeWaiters() : []
    }
    signal.notifyObservers()
    waiting.forEach { $0.resume() }
  }
}

extension PersistedBox.State {
  /// Whether an absence shows that a writer has removed the key. A key that never had a record, or
  /// whose record has ended, is absent without that.
  func isRemoval(_ absence: StoredSetting) -> Bool {
    guard hasRecord else { return false }
    return expiry == 0 || absence.absenceTime < expiry
  }

  /// Records the error that ended the following of the store, unless the value has another one.
  ///
  /// - Returns: whether the error is recorded.
  @discardableResult
  mutating func fail(_ error: StoreError) -> Bool {
    guard self.error == nil || error.code == .storeReplaced else { return false }
    self.error = error
    return true
  }

  /// Counts a change and returns the tasks that wait for one.
  mutating func takeWaiters() -> [UnsafeContinuation<Void, Never>] {
    changeCount += 1
    defer { waiters = [:] }
    return Array(waiters.values)
  }
}

/// A setting that was set and is not written yet.
struct PendingSetting: Sendable {
  let key: Key
  /// Number of the set among all sets of its box.
  let count: UInt64
  let box: any SettingBox
  /// Whether stored bytes have the value already, whose bytes are the second argument.
  let isStored: @Sendable ([UInt8], [UInt8]) -> Bool
  /// Encodes the value; nil removes the key.
  let encoded: @Sendable () throws(StoreError) -> [UInt8]?
}

/// A box, without the type of its value.
protocol SettingBox: AnyObject, Sendable {
  /// Begins an attempt to save.
  ///
  /// - Returns: false when another value has replaced this one before it was saved.
  func beginSaving(_ count: UInt64) -> Bool
  /// Ends an attempt that succeeded.
  ///
  /// - Parameters:
  ///   - sequence: nil when there was nothing to write.
  ///   - isRecord: whether the store now has a record of the key; false after a removal.
  ///   - expiry: the time at which that record ends, or an earlier one; 0 where it does not end.
  func saved(_ count: UInt64, at sequence: UInt64?, isRecord: Bool, expiry: UInt64)
  /// Ends an attempt that failed.
  ///
  /// - Returns: whether the value must be kept for another attempt.
  func couldNotSave(_ count: UInt64, _ error: StoreError) -> Bool
  func take(_ stored: StoredSetting, always: Bool)
  func fail(_ error: StoreError)
  /// Forgets the sequence numbers, because those of another store begin again.
  func forgetStore()
  /// Whether the value was set and is not saved.
  var isUnsaved: Bool { get }
  /// The type of the value, for messages.
  var kind: String { get }
}

extension PersistedBox: SettingBox {
  var isUnsaved: Bool { state.withLock { $0.isPending } }

  func forgetStore() {
    state.withLock { state in
      state.sequence = 0
      state.late = nil
      state.hasRecord = false
    }
  }

  func beginSaving(_ count: UInt64) -> Bool {
    state.withLock { state in
      guard state.settledCount < count else { return false }
      state.isUnsaved = false
      return true
    }
  }

  func saved(_ count: UInt64, at sequence: UInt64?, isRecord: Bool, expiry: UInt64) {
    let (late, wasFailed) = state.withLock { state -> (StoredSetting?, Bool) in
      state.sequence = max(state.sequence, sequence ?? 0)
      state.hasRecord = isRecord
      state.expiry = expiry
      // A later set is not saved yet; its end settles the state.
      guard count == state.setCount else { return (nil, false) }
      state.settledCount = count
      let wasFailed = state.error != nil
      state.error = nil
      return (state.takeLate(), wasFailed)
    }
    if wasFailed { signal.notifyObservers() }
    if let late { take(late) }
  }

  func couldNotSave(_ count: UInt64, _ error: StoreError) -> Bool {
    let (late, keeps) = state.withLock { state -> (StoredSetting?, Bool) in
      state.error = error
      guard count == state.setCount else { return (nil, false) }
      state.isUnsaved = true
      return (state.takeLate(), true)
    }
    signal.notifyObservers()
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
