import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// The restore of one moment.
///
/// 1. Find the newest checkpoint at or before the moment.
/// 2. Read the commits after it, by the rules of ``HistoryReader``, which exclude late commits of
///    fenced writers.
/// 3. Go back from the wanted commit to the last whole copy of the store: of the checkpoint, or of
///    a gap.
/// 4. Write the segments of that copy, and the pieces of the commits after it.
struct ArchiveRestore: Sendable {
  let objects: ArchiveObjects
  let storage: any Storage
  let path: FilePath
  /// Whether the store goes on to follow the archive, instead of beginning a life of its own.
  let follows: Bool
  let progress: (@Sendable (Store.Progress) -> Void)?

  init(
    objects: ArchiveObjects, storage: any Storage, path: FilePath, follows: Bool = false,
    _ progress: (@Sendable (Store.Progress) -> Void)?
  ) {
    (self.objects, self.storage, self.path) = (objects, storage, path)
    (self.follows, self.progress) = (follows, progress)
  }

  func run(_ point: RestorePoint) async throws(ArchiveError) -> RestoreReport {
    try await run(through: try await ArchiveHistory.read(objects, point))
  }

  /// Makes a store that follows the archive from its newest state.
  ///
  /// - Returns: the highest epoch of the archive. The life with it may have ended at its fence, so
  ///   the store does not have it.
  func follow() async throws(ArchiveError) -> UInt64 {
    let history = try await ArchiveHistory.read(objects, .latest)
    _ = try await run(through: history)
    return history.highestEpoch
  }

  private func run(
    through history: ArchiveHistory
  ) async throws(ArchiveError) -> RestoreReport {
    let (source, copy, commits) = try await route(through: history)
    let contents = try await objects.contents(source)
    let manifest = try decoding(objects.names.data(source.name)) {
      () throws(FormatError) in try contents.decodedManifest()
    }
    // Before the directory is created, which would stay.
    if let sequence = history.rewindsTo, sequence < manifest.compactedThrough {
      throw ArchiveError(
        .stateUnavailable,
        "the archive has no state at operation \(sequence): the store was compacted before it was "
          + "copied; the next state that it has is that of operation \(manifest.compactedThrough)",
        object: objects.names.root)
    }
    let staged = try await storing { () async throws(StoreError) in
      try await StagedStore.begin(at: path, on: storage, manifest)
    }
    var state = RestoredState(objects: objects, staged: staged, manifest: manifest)
    if follows { state.following = try await history.following() }
    do throws(ArchiveError) {
      try await state.add(contents, progress)
      for position in commits.reversed() { try await state.add(commits: position) }
      return try await state.finish(history, progress)
    } catch {
      await staged.discard()
      throw try await explained(error, source, copy)
    }
  }

  /// Returns the error for an object that is missing: a cleaning removes the contents of a
  /// checkpoint before its segments, and before both the commit of a whole copy without a
  /// checkpoint.
  ///
  /// - Parameter copy: the position of that commit; nil for a checkpoint.
  private func explained(
    _ error: ArchiveError, _ source: ContentsReference, _ copy: UInt64?
  ) async throws(ArchiveError) -> ArchiveError {
    guard error.code == .damaged else { return error }
    let name = copy.map { objects.names.commit($0) } ?? objects.names.data(source.name)
    if try await objects.exists(name) { return error }
    return ArchiveError(
      .stateUnavailable,
      "a cleaning has removed this state while it was restored; choose another one", object: name)
  }

  /// Returns the contents of the last whole copy before the end of the history, the position of the
  /// commit that names them, and the commits after it, the last one first. The position is nil for
  /// the contents of a checkpoint.
  private func route(
    through history: ArchiveHistory
  ) async throws(ArchiveError) -> (ContentsReference, copy: UInt64?, [UInt64]) {
    var position = history.end
    var commits: [UInt64] = []
    while position > 0 {
      if let checkpoint = history.checkpoint, checkpoint.position == position {
        return (checkpoint.contents, nil, commits)
      }
      guard let header = history.headers[position] else {
        throw ArchiveError(
          .stateUnavailable,
          "this state builds on an older one than the checkpoint before it; choose a later moment",
          object: objects.names.commit(position))
      }
      if let contents = header.contents { return (contents, position, commits) }
      commits.append(position)
      position = header.kind == .fence ? header.base.position : position - 1
    }
    throw ArchiveError(
      .stateUnavailable, "the archive holds no whole copy of the store before this moment",
      object: objects.names.root)
  }
}

func storing<Result>(
  _ body: () async throws(StoreError) -> Result
) async throws(ArchiveError) -> Result {
  do throws(StoreError) { return try await body() } catch { throw ArchiveError(error) }
}

/// The state of a store that is put together.
private struct RestoredState {
  let objects: ArchiveObjects
  let staged: StagedStore
  var manifest: Manifest
  /// The place in the archive's history, for a follower.
  var following: Manifest.Following?
  /// The segments that the commits have changed, with their lengths, in the order of the log.
  private var changed: [(segment: SegmentIdentity, length: Int)] = []
  private var last: CommitHeader?

  init(objects: ArchiveObjects, staged: StagedStore, manifest: Manifest) {
    (self.objects, self.staged, self.manifest) = (objects, staged, manifest)
  }

  mutating func add(
    _ contents: CheckpointContents, _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(ArchiveError) {
    let total = contents.segments.reduce(0) { $0 + $1.lengthBytes }
    var done: UInt64 = 0
    for segment in contents.segments {
      let staged = staged
      try await ArchivedSegment(segment, objects).forEachPart {
        (offset, raw) async throws(ArchiveError) in
        try await storing { () async throws(StoreError) in
          try await staged.write(raw, to: segment.number, at: offset)
        }
        done += UInt64(raw.count)
        progress?(Store.Progress(completedBytes: done, totalBytes: 2 * total))
      }
    }
  }

  /// Adds the bytes of a commit.
  mutating func add(commits position: UInt64) async throws(ArchiveError) {
    let name = objects.names.commit(position)
    guard let commit = try await objects.commit(position) else {
      throw ArchiveError(.stateUnavailable, "the commit was removed", object: name)
    }
    for (piece, range) in zip(commit.header.pieces, commit.header.pieceRanges) {
      let segment = SegmentIdentity(number: piece.segment, epoch: piece.epoch, salt: piece.salt)
      let place = changed.firstIndex { $0.segment == segment }
      let known =
        place.map { changed[$0].length }
        ?? manifest.segments.first { $0.number == piece.segment }.map { Int($0.lengthBytes) } ?? 0
      guard piece.from == UInt64(known) else {
        throw ArchiveError(
          .damaged,
          "a piece of segment \(piece.segment) begins at \(piece.from) instead of \(known)",
          object: name)
      }
      let bytes = Array(commit.rawBytes[range])
      try await storing { () async throws(StoreError) in
        try await staged.write(bytes, to: piece.segment, at: known)
      }
      if let place {
        changed[place].length += range.count
      } else {
        changed.append((segment, known + range.count))
      }
    }
    add(commit.header.keyspaces)
    last = commit.header
  }

  private mutating func add(_ keyspaces: [CommitHeader.Keyspace]) {
    for keyspace in keyspaces {
      if keyspace.id != 0, !manifest.keyspaces.contains(where: { $0.id == keyspace.id }) {
        manifest.keyspaces.append(
          Manifest.Keyspace(id: keyspace.id, index: 0, name: keyspace.name))
      }
      if keyspace.isOrdered { manifest.order(keyspace.id) }
    }
  }

  /// Makes the store appear.
  mutating func finish(
    _ history: ArchiveHistory, _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(ArchiveError) -> RestoreReport {
    if let last {
      guard last.endsAtCut else {
        throw ArchiveError(
          .stateUnavailable, "the commit ends between two states; choose another one",
          object: objects.names.commit(last.position))
      }
      manifest.lastSequence = max(manifest.lastSequence, last.lastSequence)
      manifest.digest = last.digest
    }
    for (segment, length) in changed {
      let staged = staged
      let entry = try await storing { () async throws(StoreError) in
        try await staged.entry(of: segment, lengthBytes: length)
      }
      if let known = manifest.segments.firstIndex(where: { $0.number == segment.number }) {
        manifest.segments[known] = entry
      } else {
        manifest.segments.append(entry)
      }
      manifest.nextSegmentNumber = max(manifest.nextSegmentNumber, segment.number.rawValue + 1)
    }
    manifest.following = following
    for epoch in history.epochs where epoch.epoch > manifest.epoch {
      manifest.epoch = epoch.epoch
      manifest.epochs.append(epoch)
    }
    // A store that does not follow begins a life with a number that no other one has.
    if following == nil { manifest.epoch = max(manifest.epoch, history.highestEpoch) }
    let (manifest, staged) = (manifest, staged)
    return try await storing { () async throws(StoreError) in
      try await staged.finish(manifest, through: history.rewindsTo, progress)
    }
  }
}
