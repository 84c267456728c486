import MoraineFormat

/// A verification of an archive, from which a cleaning may remove states at the same time.
///
/// A cleaning removes commits first, the oldest first, then the contents of checkpoints, then other
/// objects. So the state of a checkpoint was removed exactly when its contents are missing, and a
/// whole copy without a checkpoint exactly when its commit is missing: see ``ArchiveCleaner``.
struct ArchiveVerification {
  /// How often the archive is read when a cleaning removes the newest state each time.
  private static let passCount = 4

  private let archive: Archive
  private let allStates: Bool
  /// The data objects that were read. Each has one content for ever, so no pass repeats them.
  private var checked: Set<DataObjectName> = []
  private var checkedBytes: UInt64 = 0

  init(_ archive: Archive, allStates: Bool) {
    (self.archive, self.allStates) = (archive, allStates)
  }

  private var objects: ArchiveObjects { archive.objects }

  mutating func run() async throws(ArchiveError) -> ArchiveInfo {
    var result = try await pass()
    for _ in 1..<Self.passCount {
      guard case .failure = result else { break }
      result = try await pass()
    }
    return try result.get()
  }

  /// Reads everything that the archive has now.
  ///
  /// - Returns: a failure when something is missing that a cleaning may have removed since the pass
  ///   began.
  /// - Throws: `.damaged`, `.stateUnavailable`, where no cleaning is the cause; `.unavailable`.
  private mutating func pass() async throws(ArchiveError) -> Result<ArchiveInfo, ArchiveError> {
    let (found, history) = try await archive.inspect()
    var info = found
    let newest = history.checkpoint
    let newestPosition = newest?.position ?? 0
    var older: [ContentsReference] = []
    var position = newestPosition + 1
    if allStates {
      for checkpoint in try await archive.checkpoints() where checkpoint.extent != .removed {
        let record = try await objects.checkpoint(checkpoint.number)
        if let record { older.append(record.contents) }
        if checkpoint.extent == .moments { position = min(position, checkpoint.position + 1) }
        // What lies before the first checkpoint stays until a cleaning removes the first commit.
        if checkpoint.number == 1, checkpoint.extent == .moments,
          try await objects.exists(objects.names.commit(1))
        {
          position = 1
        }
      }
    }
    var copies: [(position: UInt64, contents: ContentsReference)] = []
    while position <= history.end {
      guard let commit = try await objects.commit(position) else {
        let error = ArchiveError(
          .stateUnavailable, "the commit was removed", object: objects.names.commit(position))
        // Those after the newest checkpoint belong to the newest state.
        guard position <= newestPosition, let next = try await positionAfterCleaning(of: position)
        else { return .failure(error) }
        position = next
        continue
      }
      info.checkedBytes += UInt64(commit.header.headerByteCount) + commit.header.payloadByteCount
      if let contents = commit.header.contents { copies.append((position, contents)) }
      position += 1
    }
    if let newest, let error = try await read(newest.contents) {
      // A cleaning keeps the newest checkpoint.
      let latest = try await ArchiveHistory.newestCheckpoint(objects)
      guard latest?.number != newest.number else { throw error }
      return .failure(error)
    }
    // A state that was removed has nothing to check.
    for contents in older { _ = try await read(contents) }
    for copy in copies {
      // The contents may still exist when a cleaning has removed segments already.
      guard let error = try await failure(of: copy.contents) else { continue }
      // A cleaning removes the commit of a whole copy first.
      if try await objects.exists(objects.names.commit(copy.position)) { throw error }
      if copy.position > newestPosition { return .failure(error) }
    }
    info.checkedBytes += checkedBytes
    return .success(info)
  }

  /// Returns the position of the first commit that no cleaning has removed, if a cleaning has
  /// removed the commit at the given one.
  private func positionAfterCleaning(of removed: UInt64) async throws(ArchiveError) -> UInt64? {
    let base = try await archive.checkpoints().last { $0.extent == .moments }
    guard let base, base.position >= removed else { return nil }
    return base.position + 1
  }

  /// Reads the contents of a checkpoint and its segments.
  ///
  /// - Returns: the error when the state was removed; nil when it was read.
  private mutating func read(
    _ reference: ContentsReference
  ) async throws(ArchiveError) -> ArchiveError? {
    guard let error = try await failure(of: reference) else { return nil }
    if try await objects.exists(objects.names.data(reference.name)) { throw error }
    return error
  }

  /// Reads contents and their segments.
  ///
  /// - Returns: the error when something is missing or damaged; nil when all was read.
  private mutating func failure(
    of reference: ContentsReference
  ) async throws(ArchiveError) -> ArchiveError? {
    if checked.contains(reference.name) { return nil }
    do throws(ArchiveError) {
      let record = try await objects.contents(reference)
      for segment in record.segments where !checked.contains(segment.object) {
        try await ArchivedSegment(segment, objects).forEachPart { _, _ in }
        checked.insert(segment.object)
        checkedBytes += segment.objectByteCount
      }
      checked.insert(reference.name)
      checkedBytes += reference.byteCount
      return nil
    } catch {
      guard error.code == .damaged || error.code == .stateUnavailable else { throw error }
      return error
    }
  }
}
