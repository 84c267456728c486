import MoraineEngine
import Synchronization

/// What was set and is not in the log yet, in its order.
struct SettingQueue {
  var pending: [PendingSetting] = []
  var isWriting = false
  /// Attempts to write what is pending: those that were asked for, and those that are over.
  var askedCount: UInt64 = 0
  var doneCount: UInt64 = 0
  var waiters: [(count: UInt64, continuation: UnsafeContinuation<Void, Never>)] = []

  mutating func add(_ setting: PendingSetting) {
    // What it replaces was never to be seen on disk: all that is pending is written at once.
    pending.removeAll { $0.key == setting.key }
    pending.append(setting)
  }
}

extension PersistedSpace {
  /// Has something written in the background.
  func save(_ setting: PendingSetting) { ask { $0.add(setting) } }

  /// Waits until everything that was set before was written, or could not be.
  func attempt() async throws(StoreError) {
    _ = try openKeyspace()
    let count = ask { _ in }
    await wait { $0.doneCount < count ? count : nil }
  }

  /// Waits until nothing is on its way.
  func writingEnded() async { await wait { $0.isWriting ? $0.askedCount : nil } }

  /// Waits for all that was written.
  func sync() async throws(StoreError) { try await openKeyspace().store.sync() }

  /// - Parameter count: of the attempt to wait for; nil when there is none.
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

  /// Asks for an attempt to write what is pending. One task makes them, as long as there are some.
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
    // It holds the space until all is written, whoever else lets it go.
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

  /// All in one batch, so that the disk never has a state that the program did not.
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
      // One that is too large must not keep the others from being saved.
      guard begun.count > 1, error.code == .valueTooLarge || error.code == .keyTooLarge else {
        for setting in begun where setting.box.couldNotSave(setting.count, error) {
          keep(setting)
        }
        return
      }
      for setting in begun { await write([setting], to: keyspace) }
    }
  }

  /// - Returns: the batch's last sequence number, which stands for all of it: nothing comes
  ///   between.
  private func commit(
    _ operations: [(key: Key, value: [UInt8]?)], to keyspace: Keyspace
  ) async throws(StoreError) -> UInt64? {
    let receipt = Mutex<CommitReceipt?>(nil)
    try await keyspace.commit(operations, durability: nil) { done in
      receipt.withLock { $0 = done }
    }
    return receipt.withLock { $0?.sequence?.rawValue }
  }

  /// Keeps something for the next attempt, unless something newer waits for it already.
  private func keep(_ setting: PendingSetting) {
    state.withLock { state in
      guard !state.queue.pending.contains(where: { $0.key == setting.key }) else { return }
      state.queue.pending.insert(setting, at: 0)
    }
  }
}
