import MoraineFormat
import MoraineStorage

/// Repetition of reads whose files are gone. Without mappings, a file is opened when it is read.
/// Another process may have compacted and removed the file since this process last applied changes.
extension Store {
  /// Number of times that a read is repeated because its files were compacted and removed.
  static let rereadLimit = 8

  /// Runs a read, and repeats it when other segments have replaced the segments that this process
  /// knows.
  ///
  /// - Returns: the result of the read; nil when the store does not exist yet.
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

  /// Returns whether a read failed because other files have replaced the files that it read. If so,
  /// this process knows the new files now.
  func wasReplaced(_ error: StoreError) async throws(StoreError) -> Bool {
    guard error.code == .corrupted else { return false }
    return try await followReplacement()
  }

  /// Reads the whole store again when another process has published a manifest that this process
  /// does not know.
  ///
  /// - Returns: false when nothing has changed. Then a file that is missing stays missing.
  private func followReplacement() async throws(StoreError) -> Bool {
    guard isShared || opener.configuration.isReadOnly, engine != nil, !peers.hasLease,
      !peers.keepsSlots
    else { return false }
    if peers.isTakingOver {
      // A writer of this process is applying all changes.
      await peers.waitForTakeover()
      return true
    }
    let directory = engine!.directoryHandle()
    let manifest = try ManifestFile.read(directory, DirectoryContents(directory))
    guard let manifest, manifest.generation > engine!.log.manifest.generation else { return false }
    guard engine!.log.link == nil, !peers.isRereading else {
      return try await reread() != .refused
    }
    // The reader opened the store before any process shared it.
    var opener = opener
    opener.patienceNanoseconds = Self.briefPatienceNanoseconds
    let known = peers.stateCount
    let box = try await readOnThread { [opener] () throws(StoreError) in
      EngineBox(try opener.open(creating: false))
    }
    guard peers.stateCount == known, engine != nil else { return true }
    precondition(!peers.hasLease, "a state is replaced while its log is appended to")
    guard let state = box?.take() else { return false }
    engine = consume state
    begunFollowing()
    return true
  }

  /// Opens the files that a walk is about to read, as many as are kept open. These files can be
  /// read even after other processes have removed them.
  func holdFiles() async throws(StoreError) {
    try await followBeforeWalk()
    _ = try await reading { (engine) throws(StoreError) in try engine.log.table.holdFiles() }
  }

  /// Follows a newer manifest before a walk over more files than are kept open, because the other
  /// files may have been removed. A reader that no writer wakes has no other way to learn of that.
  private func followBeforeWalk() async throws(StoreError) {
    guard engine != nil, engine!.log.link == nil, opener.configuration.isReadOnly,
      engine!.log.table.hasMoreFilesThanAreKept
    else { return }
    do throws(StoreError) { _ = try await followReplacement() } catch {
      // A writer has the store open exclusively. The walk reads the files that are held open.
      guard error.code == .locked else { throw error }
    }
  }
}

extension SegmentTable {
  /// Whether some of the files that are read without a mapping are closed after each use.
  fileprivate var hasMoreFilesThanAreKept: Bool {
    readingOrder.count > FileCache.limit && readingOrder.contains { self[$0].base == nil }
  }

  /// Opens the files that are read without a mapping, as many as are kept open.
  func holdFiles() throws(StoreError) {
    for slot in readingOrder.prefix(FileCache.limit) where self[slot].base == nil {
      _ = try files.file(for: slot, named: fileName(slot))
    }
  }
}
