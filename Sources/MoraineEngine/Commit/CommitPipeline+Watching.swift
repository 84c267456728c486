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
