import MoraineEngine
import Synchronization

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
    defer { signal.tell() }
    return try writing.withLock { (_) throws(Failure) in
      var (value, refusal) = state.withLock { ($0.value, $0.refusal) }
      let result = try body(&value)
      if refusal == .impossible || (refusal == .unreadable && !givesUp) { return result }
      let waiting = state.withLock { state in
        state.value = value
        // It is on its way to the store.
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
    return PendingSetting(key: Key(name), count: count, box: self) { () throws(StoreError) in
      guard let value else { return nil }
      do { return try format.encode(value) } catch {
        throw StoreError(
          .encodingFailed, "the setting '\(name)' cannot be encoded: \(error)", file: place)
      }
    }
  }

  /// Replaces the value by a stored one if that is newer.
  ///
  /// - Parameter always: whether a stored value that is not newer is taken too. A value that could
  ///   not be saved is then discarded.
  func take(_ stored: StoredSetting, always: Bool = false) {
    if !isNews(stored, always) { return }
    defer { signal.tell() }
    writing.withLock { _ in
      guard isNews(stored, always) else { return }
      let found = Self.read(stored, key, place)
      let waiting = state.withLock { state in
        Self.put(found, at: stored.sequence, key, into: &state)
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
        if stored.sequence > max(state.sequence, state.late?.sequence ?? 0) { state.late = stored }
        return false
      }
      if always || stored.sequence > state.sequence { return true }
      // The same record again, after an error that may be over.
      return stored.sequence == state.sequence && state.error != nil && !state.isUnsaved
    }
  }

  /// Records the error that ended the following of the store. The value stays. Sequences return it
  /// once more, so that their readers look at the error.
  func fail(_ error: StoreError) {
    let waiting = state.withLock { state -> [UnsafeContinuation<Void, Never>] in
      guard state.error == nil || error.code == .storeReplaced else { return [] }
      state.error = error
      return state.takeWaiters()
    }
    signal.tell()
    waiting.forEach { $0.resume() }
  }
}

extension PersistedBox.State {
  /// Counts a change and returns the tasks that wait for one.
  mutating func takeWaiters() -> [UnsafeContinuation<Void, Never>] {
    changeCount += 1
    defer { waiters = [:] }
    return Array(waiters.values)
  }
}
