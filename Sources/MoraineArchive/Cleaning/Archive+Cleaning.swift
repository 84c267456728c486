public import MoraineFormat
import Synchronization

/// The result of a cleaning.
public struct CleaningReport: Hashable, Sendable {
  /// The number of commits that were removed; of a dry run, that a cleaning would remove.
  public internal(set) var commitCount = 0
  /// The number of data objects that were removed: segments, and lists of segments. Of a dry run,
  /// that a cleaning would remove.
  public internal(set) var objectCount = 0
  /// The number of checkpoints whose state can still be restored.
  public internal(set) var checkpointCount = 0
  /// The position from which on each moment can be restored.
  public internal(set) var firstPosition: UInt64 = 0
  /// Whether no data object was removed, because a writer has attached since the newest checkpoint.
  /// A cleaning after the next checkpoint removes them.
  public internal(set) var waitsForCheckpoint = false
  /// The list of segments of a whole copy, between checkpoints that stay, that could not be read;
  /// nil when there is none. Then no data object was removed: the copy may need any of them. When a
  /// later cleaning has the same result, ``Archive/verify(allStates:)`` of all states says what is
  /// damaged.
  public internal(set) var damagedContents: ObjectName?
}

/// What the failed cleanings of an archive have left. The copies of an ``Archive`` share it.
final class CleaningLeftovers: Sendable {
  private let state = Mutex(UnfinishedRemoval())

  var unfinished: UnfinishedRemoval { state.withLock { $0 } }

  /// Replaces what a cleaning has begun with by what it has left. Another one may run beside it.
  func replace(_ begun: UnfinishedRemoval, by left: UnfinishedRemoval) {
    state.withLock { unfinished in
      unfinished.subtract(begun)
      unfinished.formUnion(left)
    }
  }
}

/// A checkpoint of an archive: a state that needs no older object.
public struct CheckpointInfo: Hashable, Sendable {
  /// The states that can be restored.
  public enum Extent: Hashable, Sendable {
    /// Each moment from this checkpoint on, up to the next one at least.
    case moments
    /// The state of the checkpoint alone, because a cleaning has removed the commits after it.
    case state
    /// None: a cleaning has removed the objects.
    case removed
  }

  /// The number of the checkpoint, counted from 1.
  public let number: UInt64
  /// The position of the commit whose state it has.
  public let position: UInt64
  /// The number of the last operation in the state.
  public let sequence: SequenceNumber
  /// The time of the checkpoint by the writer's clock: milliseconds since 1970, UTC.
  public let milliseconds: UInt64
  /// The term of the writer that made it.
  public let term: UInt64
  /// What can be restored.
  public let extent: Extent
}

extension Archive {
  /// Removes the commits and the objects that a rule does not keep. Checkpoints stay as records, so
  /// that each reader knows which states were removed.
  ///
  /// Any process may clean, also while a writer is attached and while others read. A restore of a
  /// state that is removed in the meantime fails with `.stateUnavailable`.
  ///
  /// Call it again after an error: what was removed until then was superfluous. The same `Archive`
  /// value and its copies remove the rest then. After the process has ended, segments of up to four
  /// checkpoints may stay until the next writer has made a checkpoint.
  ///
  /// - Parameters:
  ///   - rule: the states that stay.
  ///   - isDryRun: whether to count only.
  /// - Throws: `.damaged` when an object is missing or damaged that a state needs which stays: then
  ///   nothing is removed. A list of segments of a whole copy between checkpoints is no error: see
  ///   ``CleaningReport/damagedContents``. `.unavailable`, also without the permission to remove or
  ///   to list.
  /// - Complexity: one request for each checkpoint, for each thousand objects, and for each commit
  ///   that a writer before the newest one has made since the first moment that stays.
  @discardableResult
  public func clean(
    _ rule: RetentionRule = RetentionRule(), isDryRun: Bool = false
  ) async throws(ArchiveError) -> CleaningReport {
    let begun = leftovers.unfinished
    var memory = CleaningMemory()
    memory.unfinished = begun
    defer { leftovers.replace(begun, by: memory.unfinished) }
    return try await ArchiveCleaner(objects: objects, rule: rule, isDryRun: isDryRun)
      .run(&memory)
  }

  /// Returns all checkpoints, the newest one first, and what can be restored from each.
  ///
  /// - Throws: `.damaged`, `.unavailable`.
  /// - Complexity: up to three requests for each checkpoint.
  public func checkpoints() async throws(ArchiveError) -> [CheckpointInfo] {
    guard let newest = try await ArchiveHistory.newestCheckpoint(objects) else { return [] }
    var result: [CheckpointInfo] = []
    for number in stride(from: newest.number, to: 0, by: -1) {
      guard let record = try await objects.checkpoint(number) else { continue }
      result.append(
        CheckpointInfo(
          number: number, position: record.position, sequence: record.sequence,
          milliseconds: record.milliseconds, term: record.term,
          extent: try await extent(of: record, newest)))
    }
    return result
  }

  private func extent(
    of record: CheckpointRecord, _ newest: CheckpointRecord
  ) async throws(ArchiveError) -> CheckpointInfo.Extent {
    guard try await objects.exists(objects.names.data(record.contents.name)) else {
      return .removed
    }
    if record.number == newest.number { return .moments }
    let next = objects.names.commit(record.position + 1)
    return try await objects.exists(next) ? .moments : .state
  }
}

extension ArchiveObjects {
  func exists(_ name: ObjectName) async throws(ArchiveError) -> Bool {
    try await get(name, 0..<1) != nil
  }

  /// Removes objects. It is no error when one does not exist.
  func remove(_ names: [ObjectName]) async throws(ArchiveError) {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) {
        return try await store.remove(names)
      } catch {
        try await attempts.pause(after: error)
      }
    }
  }

  /// Returns all names under a prefix, up to a name.
  func list(
    _ prefix: ObjectName, before end: ObjectName? = nil
  ) async throws(ArchiveError) -> [ObjectName] {
    var result: [ObjectName] = []
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) {
        let names = try await store.list(under: prefix, after: result.last, limit: 1000)
        let count = result.count
        // A list without an order ends early: what it leaves out is not removed.
        for name in names where result.last.map({ $0 < name }) ?? true {
          if let end, name >= end { return result }
          result.append(name)
        }
        if result.count == count { return result }
        attempts = Attempts(patience)
      } catch {
        try await attempts.pause(after: error)
      }
    }
  }
}
