import MoraineStorage

extension Store {
  /// Waits until the store stops writing for good, because a failure left it unknown what the disk
  /// holds: for what supervises a store, and would rather end than run on without it.
  ///
  /// One such failure is that the files were deleted, moved or replaced (`.storeReplaced`). An idle
  /// store notices that within a second.
  ///
  /// - Returns: why; nil when the store was closed before, or when the task was cancelled.
  public nonisolated func waitUntilPoisoned() async -> StoreError? {
    await pipeline.waitUntilPoisoned()
  }

  /// What has happened, for ``Configuration/onEvent``. Only where things are slow anyway.
  nonisolated func tell(_ event: @autoclosure () -> StoreEvent) {
    if let events = pipeline.events { events.tell(event()) }
  }

  func tellOpened() {
    guard engine != nil else { return }
    tell(.opened(engine!.report))
  }

  /// What closing or suspending interrupts has not failed; and what poisons was told as such.
  func tellCompactionFailed(_ error: StoreError) {
    if !isClosed, !isSuspended, !pipeline.hasPoison { tell(.compactionFailed(error)) }
  }

  /// One event for the many operations that may find the disk full before somebody frees it.
  func tellOutOfSpace(_ error: StoreError) {
    guard !isOutOfSpace else { return }
    isOutOfSpace = true
    tell(.outOfSpace(error))
  }
}
