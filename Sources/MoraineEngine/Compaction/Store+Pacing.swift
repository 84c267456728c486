import MoraineFormat
import MoraineStorage

extension Store {
  /// Lets time pass in a compaction. In short sleeps, so that closing the store and cancelling the
  /// task end it soon, however slow the rate limit is.
  ///
  /// - Throws: `.closed`; when the task was cancelled too, and the work then knows it.
  func sleep(_ nanoseconds: UInt64, _ work: CompactionWork) async throws(StoreError) {
    var left = nanoseconds
    while left > 0, !isClosed, !isSuspended {
      guard !Task.isCancelled else {
        work.isCancelled = true
        throw StoreError(.closed, "the compaction was cancelled")
      }
      let step = min(left, CompactionPacer.longestPause)
      await ThreadPool.current.sleep(nanoseconds: step)
      left -= step
    }
    try checkUsable()
  }
}
