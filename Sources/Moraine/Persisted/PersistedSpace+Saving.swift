import MoraineEngine
import Synchronization

/// The settings that are not in the log yet, in the order in which they were set.
struct SettingQueue {
  var pending: [PendingSetting] = []
  var isWriting = false
  /// Number of attempts to write the pending settings that were requested.
  var askedCount: UInt64 = 0
  /// Number of the last requested attempt that is over.
  var doneCount: UInt64 = 0
  var waiters: [(count: UInt64, continuation: UnsafeContinuation<Void, Never>)] = []

  mutating func add(_ setting: PendingSetting) {
    // The replaced value would never be visible on disk: all pending settings are one batch.
    pending.removeAll { $0.key == setting.key }
    pending.append(setting)
  }
}

extension PersistedSpace {
  /// Schedules a setting to be written in the background.
  func save(_ setting: PendingSetting) { ask { $0.add(setting) } }

  /// Waits until every setting that was set before is written or has failed.
  func attempt() async throws(StoreError) {
    _ = try openKeyspace()
    let count = ask { _ in }
    await wait { $0.doneCount < count ? count : nil }
  }

  /// Waits until no setting is on its way to the log.
  func writingEnded() async { await wait { $0.isWriting ? $0.askedCount : nil } }

  /// Waits until everything that was written is durable.
  func sync() async throws(StoreError) { try await openKeyspace().store.sync() }

  /// Waits for the end of an attempt.
  ///
  /// - Parameter count: returns the number of the attempt to wait for; nil when there is none.
  private func wait(_ count: (SettingQueue) -> UInt64?) async {
    await withUnsafeContinuation { continuation in
      let isOver = state.withLock { state in
        guard let count = count(state.queue) else { return true }
        state.queue.waiters.append((count, continuation))
        return false
      }
      if isOver { continuation.resume() }
    }
  }

  /// Requests an attempt to write the pending settings. One task makes all attempts and ends with
  /// the last one.
  ///
  /// - Returns: the attempt's number.
  @discardableResult
  private func ask(_ body: (inout SettingQueue) -> Void) -> UInt64 {
    let (count, isFirst) = state.withLock { state in
      body(&state.queue)
      state.queue.askedCount += 1
      defer { state.queue.isWriting = true }
      return (state.queue.askedCount, !state.queue.isWriting)
    }
    // The task keeps the space alive until all settings are written.
    if isFirst { Task { await self.write() } }
    return count
  }

  private func write() async {
    while true {
      let (keyspace, pending, count) = state.withLock { state in
        defer { state.queue.pending = [] }
        return (state.keyspace, state.queue.pending, state.queue.askedCount)
      }
      if let keyspace { await write(pending, to: keyspace) }
      let (over, isLast) = state.withLock { state in
        state.queue.doneCount = count
        let over = state.queue.waiters.filter { $0.count <= count }
        state.queue.waiters.removeAll { $0.count <= count }
        state.queue.isWriting = state.queue.askedCount > count
        return (over, !state.queue.isWriting)
      }
      for waiter in over { waiter.continuation.resume() }
      if isLast { return }
    }
  }

  /// Writes settings as one batch, so that the disk never has a state that the program did not.
  private func write(_ pending: [PendingSetting], to keyspace: Keyspace) async {
    var operations: [(key: Key, value: [UInt8]?)] = []
    var begun: [PendingSetting] = []
    for setting in pending where setting.box.beginSaving(setting.count) {
      do throws(StoreError) {
        operations.append((setting.key, try setting.encoded()))
        begun.append(setting)
      } catch {
        if setting.box.couldNotSave(setting.count, error) { keep(setting) }
      }
    }
    if operations.isEmpty { return }
    do throws(StoreError) {
      let sequence = try await commit(operations, to: keyspace)
      for setting in begun { setting.box.saved(setting.count, at: sequence) }
    } catch {
      // A setting that is too large must not prevent the others from being saved.
      guard begun.count > 1, error.code == .valueTooLarge || error.code == .keyTooLarge else {
        for setting in begun where setting.box.couldNotSave(setting.count, error) {
          keep(setting)
        }
        return
      }
      for setting in begun { await write([setting], to: keyspace) }
    }
  }

  /// Commits operations as one batch.
  ///
  /// - Returns: the last sequence number of the batch. It stands for the whole batch: no other
  ///   operation has a number in between.
  private func commit(
    _ operations: [(key: Key, value: [UInt8]?)], to keyspace: Keyspace
  ) async throws(StoreError) -> UInt64? {
    let receipt = Mutex<CommitReceipt?>(nil)
    try await keyspace.commit(operations, durability: nil) { done in
      receipt.withLock { $0 = done }
    }
    return receipt.withLock { $0?.sequence?.rawValue }
  }

  /// Keeps a setting for the next attempt, unless a newer one for its key is pending.
  private func keep(_ setting: PendingSetting) {
    state.withLock { state in
      guard !state.queue.pending.contains(where: { $0.key == setting.key }) else { return }
      state.queue.pending.insert(setting, at: 0)
    }
  }
}
