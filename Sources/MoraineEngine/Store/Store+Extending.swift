import MoraineFormat
import MoraineStorage

extension Store {
  /// Gets space for `count` bytes of records: more of this segment, or the next one.
  func makeRoom(for count: Int, isDelete: Bool) async throws(StoreError) {
    let room = engine!.room(for: count)
    if case .enough = room { return }
    // Deletes are no garbage that would grow without end, and may be what frees a full disk.
    if !isDelete { await yieldToCompaction(before: engine!.nextStepBytes()) }
    switch room {
    case .enough: return
    case .extendAhead:
      // Whether there is space is not known yet.
      engine!.extendAhead()
      return
    case .extend: try await extend(for: count)
    case .rotate: try await rotate(for: count)
    }
    // What deletes are given was kept back for them.
    if !isDelete { isOutOfSpace = false }
  }

  private func extend(for count: Int) async throws(StoreError) {
    if engine!.active?.ticket != nil {
      // Jobs run in order: behind this empty one, the extension is done.
      try await pipeline.run { () throws(StoreError) in }
      engine!.redeemTicket()
      if engine!.room(for: count) != .extend { return }
    }
    guard let work = engine!.extensionWork(for: count) else { return }
    let end = try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try work.run() }
    }
    engine!.extended(to: end)
  }
}
