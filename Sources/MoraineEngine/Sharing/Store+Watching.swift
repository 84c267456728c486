import MoraineFormat
import MoraineStorage

extension Store {
  /// Has this process woken when others write.
  ///
  /// - Returns: whether something cannot be read, which the caller should hear of at once.
  func watchOthers() async -> Bool {
    do throws(StoreError) {
      try beginWatching()
      // What came before the watch began.
      try await catchUp()
      guard sharing.watch == nil else { return false }
      // It may have been opened since, or the look that was due may have found nobody waiting.
      try beginWatching()
      if sharing.watch != nil { try await catchUp() }
      return false
    } catch {
      return true
    }
  }

  private func beginWatching() throws(StoreError) {
    guard sharing.watch == nil, !isSuspended else { return }
    guard let page = engine?.link?.page else { return lookLater() }
    let directory = engine!.directoryHandle()
    let watch = OthersWatch(page) { [weak self] in
      guard let self else { return }
      Task { await self.hearOfOthers() }
    }
    try storing { () throws(StorageError) in
      try watch.start { (look) throws(StorageError) in
        try directory.watchFile(SharedPage.fileName, look)
      }
    }
    sharing.watch = watch
  }

  /// A store that nobody has made yet has nothing that could be watched.
  private func lookLater() {
    guard !sharing.looksLater else { return }
    sharing.looksLater = true
    Task { [weak self] in
      // Nobody cancels it.
      do { try await Task.sleep(for: .milliseconds(20)) } catch {}
      await self?.look()
    }
  }

  private func look() {
    sharing.looksLater = false
    wakeForChange()
  }

  private func hearOfOthers() async {
    sharing.watch?.heard()
    do throws(StoreError) { try await catchUp() } catch {
      // Whoever waits asks again, and is told.
    }
    wakeForChange()
  }
}
