import MoraineEngine
import MoraineFormat

/// The lives of the store that lead to the newest state of an archive, the first one first.
///
/// A store that was restored to an earlier moment begins a life, and its operations have the
/// numbers that follow that moment. The life before has operations with the same numbers: they are
/// in the archive, and not in the history of its newest state.
struct ArchiveLives: Sendable {
  private var lives: [Manifest.Epoch] = []

  /// Reads the lives.
  ///
  /// - Parameter highestEpoch: the epoch of the last commit. Where commits after the newest
  ///   checkpoint are damaged, the ones before them count, if no life began after them.
  /// - Throws: `.damaged` when a life may have begun that cannot be read; `.unavailable`;
  ///   `.stateUnavailable` when a cleaning has removed the contents in the meantime.
  /// - Complexity: the requests of a restore of the newest state, without those for its segments:
  ///   one for each commit after the newest checkpoint, and the contents of one whole copy.
  init(_ objects: ArchiveObjects, highestEpoch: UInt64) async throws(ArchiveError) {
    let checkpoint = try await ArchiveHistory.newestCheckpoint(objects)
    let start = checkpoint?.position ?? 0
    var headers: [CommitHeader] = []
    var damage: ArchiveError?
    do throws(ArchiveError) {
      while let header = try await objects.header(start + UInt64(headers.count) + 1) {
        headers.append(header)
      }
    } catch {
      guard error.code == .damaged else { throw error }
      damage = error
    }
    let epoch = headers.reduce(checkpoint?.epoch ?? 0) { max($0, $1.epoch) }
    guard epoch >= highestEpoch else {
      throw try await Self.unread(start + UInt64(headers.count) + 1, objects, checkpoint, damage)
    }
    // The fence of a new life is followed by a whole copy; without it, the last life counts.
    let newest = headers.last { $0.endsAtCut && $0.instanceID == nil }?.position ?? start
    var contents = checkpoint?.contents
    var position = newest
    while position > start {
      let header = headers[Int(position - start) - 1]
      if let copy = header.contents {
        contents = copy
        break
      }
      if let life = header.life { lives.insert(life, at: 0) }
      position = header.kind == .fence ? header.base.position : position - 1
    }
    guard let contents else { return }
    lives.insert(contentsOf: try await Self.lives(of: contents, checkpoint, objects), at: 0)
  }

  /// Returns the lives that led to a whole copy. Where the copy of a checkpoint is damaged, or was
  /// lost, the one of an earlier checkpoint of the same life has the same lives.
  private static func lives(
    of contents: ContentsReference, _ checkpoint: CheckpointRecord?, _ objects: ArchiveObjects
  ) async throws(ArchiveError) -> [Manifest.Epoch] {
    do throws(ArchiveError) {
      let copy = try await objects.contents(contents)
      return try decoding(objects.names.data(contents.name)) { () throws(FormatError) in
        try copy.decodedManifest().epochs
      }
    } catch {
      guard error.code == .damaged || error.code == .stateUnavailable,
        let checkpoint, checkpoint.contents.name == contents.name, checkpoint.number > 1,
        let earlier = try await objects.checkpoint(checkpoint.number - 1),
        earlier.epoch == checkpoint.epoch
      else { throw error }
      return try await lives(of: earlier.contents, earlier, objects)
    }
  }

  /// Returns the error for a commit that cannot be read, and after which a life may have begun.
  private static func unread(
    _ position: UInt64, _ objects: ArchiveObjects, _ checkpoint: CheckpointRecord?,
    _ damage: ArchiveError?
  ) async throws(ArchiveError) -> ArchiveError {
    if let damage { return damage }
    if try await objects.checkpoint((checkpoint?.number ?? 0) + 1) != nil {
      return ArchiveError(
        .stateUnavailable, "a cleaning has removed commits while they were read; try again",
        object: objects.names.root)
    }
    return ArchiveError(
      .damaged, "the commit is missing, and later ones exist",
      object: objects.names.commit(position))
  }

  /// Whether all operations of a life up to a number are in the history of the newest state.
  func have(_ epoch: UInt64, through sequence: SequenceNumber) -> Bool {
    guard let index = lives.lastIndex(where: { $0.epoch == epoch }) else { return false }
    return lives[(index + 1)...].allSatisfy { sequence < $0.firstSequence }
  }
}
