import MoraineFormat
import MoraineStorage
import Synchronization

extension CommitPipeline {
  /// Waits for the end of all writing.
  ///
  /// - Returns: the poison; nil when the pipeline was stopped before, or the task was cancelled.
  func waitUntilPoisoned() async -> StoreError? {
    let number = nextWatcher.add(1, ordering: .relaxed).newValue
    return await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        let isWaiting = monitor.withLock { state in
          // Whoever cancels has said so before it looks for the continuation under this lock.
          if state.poison != nil || state.isStopped || Task.isCancelled { return false }
          state.watchers[number] = continuation
          return true
        }
        if !isWaiting { continuation.resume(returning: poison) }
      }
    } onCancel: {
      let continuation = monitor.withLock { $0.watchers.removeValue(forKey: number) }
      continuation?.resume(returning: nil)
    }
  }

  /// After the poisoning, or when there can be none any more.
  func resumeWatchers() {
    let (watchers, poison) = monitor.withLock { state in
      defer { state.watchers = [:] }
      return (state.watchers, state.poison)
    }
    for watcher in watchers.values { watcher.resume(returning: poison) }
  }
}

/// Files that are deleted, moved or replaced while the store is open.
extension CommitPipeline {
  /// Watches over the names of a store that is open for writing from now on.
  ///
  /// The names of another store never take the place of this one's: a sync that ends in that moment
  /// would be checked against them, and acknowledged.
  func watchOver(_ next: StorePresence) {
    let current = presence.withLock { $0 }
    if let current, !next.goesOn(from: current) {
      return poison(
        StoreError(
          .storeReplaced, "another store was put in this one's place; open the path again",
          file: Manifest.fileName))
    }
    let before = presence.withLock { presence in
      defer { presence = next }
      return presence
    }
    before?.stopWatching()
    next.watch { [weak self, weak next] in
      guard let self, let next, !hasPoison else { return }
      // Also where the pool has no thread: it is a few questions to the file system.
      enqueue { [weak self] _ in self?.checkPresence(next) }
    }
  }

  /// Nothing of this process is written to the directory any more.
  func endWatch() {
    let before = presence.withLock { presence in
      defer { presence = nil }
      return presence
    }
    before?.stopWatching()
  }

  /// On the committing thread: looks whether all names lead where they did, after an event.
  private func checkPresence(_ expected: StorePresence) {
    guard presence.withLock({ $0 === expected }) else { return }
    let file = monitor.withLock { $0.file }
    do throws(StoreError) {
      if let file {
        try expected.check(active: file, syncedTo: nil)
      } else {
        try expected.check()
      }
    } catch {
      poison(error)
    }
  }

  /// Makes sure, before anything in the directory is replaced or removed, that it is the store's.
  ///
  /// - Throws: `.storeReplaced`, and then the pipeline is poisoned.
  func checkPresence() throws(StoreError) {
    guard let presence = presence.withLock({ $0 }) else { return }
    do throws(StoreError) { try presence.check() } catch {
      poison(error)
      throw error
    }
  }

  /// Makes sure, before a sync is acknowledged, that a name leads to what was synced.
  ///
  /// - Throws: as ``checkPresence()``.
  func checkPresence(
    of file: any StorageFile, syncedTo offset: UInt64
  ) throws(StoreError) {
    guard let presence = presence.withLock({ $0 }) else { return }
    do throws(StoreError) { try presence.check(active: file, syncedTo: offset) } catch {
      poison(error)
      throw error
    }
  }
}
