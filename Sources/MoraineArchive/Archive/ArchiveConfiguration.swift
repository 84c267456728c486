public import MoraineEngine
import MoraineStorage

/// The settings of an archive.
public struct ArchiveConfiguration: Sendable {
  /// The time between two looks at the store for something to ship. What was written last is lost
  /// with the machine, for at most this time and the time of a request.
  public var interval: Duration = .seconds(1)
  /// The most bytes of segments that are kept after compaction has replaced them, because they were
  /// not shipped yet. Beyond it the archive gets a gap: states within the gap cannot be restored.
  public var heldBytesLimit = 256 << 20
  /// How long a call repeats requests that fail for a while, before it throws `.unavailable`.
  public var patience: Duration = .seconds(30)
  /// The bytes of the log after which a checkpoint is made, if a restore then reads less by at
  /// least an eighth of the live bytes. Where nothing is overwritten, a checkpoint spares a restore
  /// nothing but requests, and all bytes would be sent twice.
  public var checkpointBytes = 256 << 20
  /// The time after which a checkpoint is made, if anything was shipped since the last one, and if
  /// the checkpoint spares a restore at least a quarter of the bytes that it uploads. After 24
  /// times this time, and after 3,600 commits, it is made in any case.
  public var checkpointInterval: Duration = .seconds(3600)
  /// The states that stay when the writer cleans the archive after each checkpoint; nil for a
  /// writer that removes nothing. See ``Archive/clean(_:isDryRun:)``.
  public var retention: RetentionRule?
  /// The time between two looks of a follower for something new.
  public var pollInterval: Duration = .seconds(1)
  /// The name of the machine or of the program, for people who look at the archive.
  public var writerName = ""
  /// Whether the store of objects is checked first. Attaching makes about fifty small requests, and
  /// checks everything that an archive depends on. Promoting a follower makes six, and checks that
  /// a name is created only once.
  public var probesStore = true
  /// Called with each event. Must not block.
  public var onEvent: (@Sendable (ArchiveEvent) -> Void)?

  /// Whether attaching refuses a store that builds on an older state than the newest one.
  package var mustContinueNewestState = false
  /// The longest time between two looks for another writer. A writer that was stopped for longer
  /// takes over again before it acknowledges anything.
  package var stallLimit: Duration = .seconds(3600)
  /// The bytes that a restore reads in about the time of the request for one more commit.
  package var commitCostBytes = 64 << 10
  /// The most bytes of commits that a follower keeps until they are applied.
  package var keptCommitBytes = 16 << 20
  /// The time that decides when a checkpoint is due.
  package var now: @Sendable () -> ContinuousClock.Instant = { .now }
  /// The time of day for labels: milliseconds since 1970, UTC.
  package var milliseconds: @Sendable () -> UInt64 = { SystemClock.wallMilliseconds() }
  /// The most bytes of the log in one commit.
  package var commitBytes = 8 << 20
  /// How long a writer that is detached waits for an answer to a request of its cleaning.
  package var cleaningPatience: Duration = .seconds(5)
  /// Waits for ``cleaningPatience``. A test may wait for an event instead.
  package var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  /// The pause after the first failure of a request; it doubles with each further one.
  package var firstPause: Duration = .milliseconds(50)

  /// The defaults.
  public init() {}
}

/// Something that happened to an archive.
public enum ArchiveEvent: Sendable {
  /// A writer has taken over, with its term.
  case attached(term: UInt64)
  /// A checkpoint exists: states from its position on need no older object.
  case checkpointed(number: UInt64, position: UInt64)
  /// The archive has a whole copy of the store, and no states between it and the one before: the
  /// archive is new, part of the log was not shipped before compaction replaced it, or the store
  /// was restored to an earlier moment.
  case gap(position: UInt64)
  /// The writer has cleaned the archive.
  case cleaned(CleaningReport)
  /// The writer cannot clean the archive: it lacks the permission to remove or to list, or an
  /// object is missing. The event comes once, and again after a cleaning that succeeded. With
  /// `.cancelled` ``ArchiveWriter/detach()`` has interrupted the cleaning; the next one removes
  /// what this one has left.
  case cleaningFailed(ArchiveError)
  /// Requests fail; shipping goes on when they succeed.
  case stuck(ArchiveError)
  /// A follower has applied what the archive had, up to a position.
  case followed(position: UInt64, sequence: SequenceNumber)
  /// A follower has replaced its whole state by that of the archive, because the commits between
  /// both were removed or belong to another history. ``Follower/store`` is another object now.
  case rebased(position: UInt64)
  /// The writer or the follower has ended.
  case ended(ArchiveError)
}
