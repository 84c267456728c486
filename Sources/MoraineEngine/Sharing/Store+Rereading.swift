import MoraineFormat
import MoraineStorage

/// Without mappings a file is opened when it is read, and another process may have compacted it
/// away since this one has looked for news.
extension Store {
  /// So often what was read may have been compacted away meanwhile.
  static let rereadLimit = 8

  /// Reads; once more when segments that this process knows have made way for others meanwhile.
  ///
  /// - Returns: nil when there is no store yet.
  @inline(__always)
  func reading<Value>(
    _ body: (inout EngineState) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value? {
    guard engine != nil else { return nil }
    do throws(StoreError) { return try body(&engine!) } catch {
      return try await readAgain(error, body)
    }
  }

  private func readAgain<Value>(
    _ cause: StoreError, _ body: (inout EngineState) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value? {
    var cause = cause
    for _ in 0..<Self.rereadLimit {
      guard try await wasReplaced(cause) else { throw cause }
      try await checkOpen()
      guard engine != nil else { return nil }
      do throws(StoreError) { return try body(&engine!) } catch { cause = error }
    }
    throw cause
  }

  /// Whether a read has failed for files that have made way for others; then those are known now.
  func wasReplaced(_ error: StoreError) async throws(StoreError) -> Bool {
    guard error.code == .corrupted else { return false }
    return try await followReplacement()
  }

  /// Reads all again when another process has published a manifest that this one does not know.
  ///
  /// - Returns: false when nothing has changed: what is missing is missing.
  private func followReplacement() async throws(StoreError) -> Bool {
    guard isShared || opener.configuration.isReadOnly, engine != nil, sharing.leaseDepth == 0,
      !sharing.keepsSlots
    else { return false }
    if sharing.isTakingOver {
      // A writer of this process takes all in.
      await sharing.entryGate.waitForWakeUp()
      return true
    }
    let directory = engine!.directoryHandle()
    let manifest = try ManifestFile.read(directory, DirectoryContents(directory))
    guard let manifest, manifest.generation > engine!.manifest.generation else { return false }
    guard engine!.link == nil, !sharing.isRereading else { return try await reread() != .refused }
    // The reader opened the store before any process shared it.
    var opener = opener
    opener.patienceNanoseconds = Self.briefPatienceNanoseconds
    let known = sharing.stateCount
    let box = try await readOnThread { [opener] () throws(StoreError) in
      EngineBox(try opener.open(creating: false))
    }
    guard sharing.stateCount == known, engine != nil else { return true }
    guard let state = box?.take() else { return false }
    engine = consume state
    begunFollowing()
    return true
  }

  /// Opens what is about to be gone through, as far as open files are kept: then it can be read
  /// whatever others remove.
  func holdFiles() async throws(StoreError) {
    try await followBeforeWalk()
    _ = try await reading { (engine) throws(StoreError) in try engine.table.holdFiles() }
  }

  /// Follows a newer manifest before a walk over more files than are kept open: those that are not
  /// kept may be gone. A reader that no writer wakes learns of that in no other way.
  private func followBeforeWalk() async throws(StoreError) {
    guard engine != nil, engine!.link == nil, opener.configuration.isReadOnly,
      engine!.table.hasMoreFilesThanAreKept
    else { return }
    do throws(StoreError) { _ = try await followReplacement() } catch {
      // A writer has the store for itself: what is held open serves as far as it reaches.
      guard error.code == .locked else { throw error }
    }
  }
}

extension SegmentTable {
  /// Whether some of the files that are read without a mapping are closed again after each use.
  fileprivate var hasMoreFilesThanAreKept: Bool {
    readingOrder.count > FileCache.limit && readingOrder.contains { self[$0].base == nil }
  }

  /// Opens the files that are read without a mapping, as far as open files are kept.
  func holdFiles() throws(StoreError) {
    for slot in readingOrder.prefix(FileCache.limit) where self[slot].base == nil {
      _ = try files.file(for: slot, named: fileName(slot))
    }
  }
}
