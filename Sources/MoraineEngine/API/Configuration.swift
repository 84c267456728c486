import MoraineFormat

/// How a store behaves. The defaults suit an app.
public struct Configuration: Sendable {
  /// How bytes get into the active segment.
  public enum IOMode: Sendable {
    /// Through a mapping of preallocated space: no system call a write. Falls back to
    /// ``positional`` where the file system cannot preallocate, or has no shared mappings.
    case mapped
    /// With `pread` and `pwrite`: slower, and an I/O error while reading is always a thrown error
    /// (a mapping raises `SIGBUS` instead).
    case positional
  }

  /// What an operation waits for unless it says otherwise. Default: at most one second at risk.
  public var durability: Durability = .interval(.seconds(1))
  /// When a segment is sealed and the next begins at the latest, in bytes: 256 to 1 GiB. A record
  /// that is larger gets a segment of its own. A store's segments are smaller while it is small (a
  /// sixteenth of what is live, but 8 MiB) or its disk is nearly full. Default: 64 MiB.
  public var segmentSizeBytes = 64 << 20
  /// Default: mapped.
  public var ioMode: IOMode = .mapped
  /// When false, opening where no store is throws ``StoreError/Code/notAStore``. When true, the
  /// directory is made at the first write, not before.
  public var createIfMissing = true
  /// Opens without changing anything; writes throw ``StoreError/Code/readOnly``. May be opened
  /// beside other readers, and beside processes that share the store; ``StoreError/Code/locked``
  /// where a process has the store for itself.
  ///
  /// The store is locked only while it is being opened. After that a writer may open it for itself,
  /// and this opening continues to show the moment at which it was opened: mapped segments stay
  /// mapped, and without mappings up to 64 segment files stay open. In a larger store that is read
  /// without mappings, a value in a segment that the writer has compacted away is `.locked` until
  /// the writer has closed the store.
  public var isReadOnly = false

  /// Who else may have the store open.
  public enum Sharing: Sendable {
    /// Nobody: another opening, here or in another process, is ``StoreError/Code/locked``.
    case exclusive
    /// All who say so too, in any number of processes: all read and write, and see what the others
    /// wrote. A write takes the kernel's lock for as long as it appends, some microseconds; a read
    /// takes none. On a local file system only.
    case shared
  }

  /// Default: exclusive.
  public var sharing: Sharing = .exclusive

  /// When and what compaction rewrites.
  public var compaction = CompactionPolicy()
  /// A log that is shorter is read whole when the store is opened, in no time, and gets no index
  /// checkpoint. In bytes, 0 to 1 PiB; what lies outside counts as the nearer end. 0 writes one
  /// whenever the store is closed. Default: 1 MiB.
  public var checkpointFloorBytes = 1 << 20

  /// Who is told what happens to the store beside what it was asked: see ``StoreEvent``. Default:
  /// nobody.
  ///
  /// Called on a thread of the store's own, for one event at a time, in the order they happened;
  /// neither a writer nor a sync waits for it. ``Store/close()`` does: it returns when the handler
  /// has returned from the last event. So the handler must not wait for the store; it may begin a
  /// `Task` that uses it. A handler that holds the store keeps it alive.
  ///
  /// Putting and getting make no events, and cost the same with a handler as without.
  public var onEvent: (@Sendable (StoreEvent) -> Void)?

  /// The defaults.
  public init() {}

  /// Has a handler told as well, after the one that is there.
  public mutating func addEventHandler(_ handler: @escaping @Sendable (StoreEvent) -> Void) {
    guard let first = onEvent else {
      onEvent = handler
      return
    }
    onEvent = { event in
      first(event)
      handler(event)
    }
  }
}

extension Configuration {
  /// More than any log has: a checkpoint floor so high means that none is ever written.
  private static let highestCheckpointFloorBytes = 1 << 50

  /// What the store works with: every figure brought into the range that its comment names.
  package func bounded() -> Configuration {
    var result = self
    result.segmentSizeBytes = segmentSizeBytes.clamped(to: Limits.segmentSizeBytes)
    result.checkpointFloorBytes =
      checkpointFloorBytes.clamped(to: 0...Self.highestCheckpointFloorBytes)
    result.compaction = compaction.bounded()
    if isReadOnly { result.createIfMissing = false }
    return result
  }
}

extension CompactionPolicy {
  private static let spaceAmplifications = 1.1...1_000_000
  private static let liveRatios = 0.0...1.0

  /// What is not a number says nothing; the default holds then.
  fileprivate func bounded() -> CompactionPolicy {
    let usual = CompactionPolicy()
    var result = self
    result.spaceAmplificationLimit =
      spaceAmplificationLimit.isNaN
      ? usual.spaceAmplificationLimit
      : spaceAmplificationLimit.clamped(to: Self.spaceAmplifications)
    result.liveRatioLimit =
      liveRatioLimit.isNaN ? usual.liveRatioLimit : liveRatioLimit.clamped(to: Self.liveRatios)
    result.rateLimitBytesPerSecond = rateLimitBytesPerSecond.map { max(1, $0) }
    return result
  }
}

extension Comparable {
  fileprivate func clamped(to range: ClosedRange<Self>) -> Self {
    min(max(self, range.lowerBound), range.upperBound)
  }
}

extension Configuration {
  /// Whether this process alone changes the store's directory while the store is open.
  var isAlone: Bool { sharing == .exclusive && !isReadOnly }
}
