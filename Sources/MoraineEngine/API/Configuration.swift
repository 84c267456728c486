import MoraineFormat

extension Store {
  /// Settings of a store. The defaults suit an app.
  public struct Configuration: Sendable {
    /// The way the store reads and writes segment files.
    public enum IOMode: Sendable {
      /// The store maps preallocated space, so that a write needs no system call. The store falls
      /// back to ``positional`` where the file system cannot preallocate or has no shared mappings.
      case mapped
      /// The store calls `pread` and `pwrite`. This is slower, but an I/O error during a read is
      /// always a thrown error; with a mapping it raises `SIGBUS`.
      case positional
    }

    /// Durability of an operation that does not specify one. Default: an interval of one second, so
    /// that at most one second of writes is at risk.
    public var durability: Durability = .interval(.seconds(1))
    /// The size at which a segment is sealed and the next one begins, in bytes: 256 to 1 GiB. A
    /// record that is larger gets a segment of its own. Segments are smaller while the store is
    /// small (a sixteenth of the live bytes, but at least 8 MiB), while its disk is nearly full,
    /// and where a compaction or an index checkpoint ends one early. Default: 64 MiB.
    public var segmentSizeBytes = 64 << 20
    /// The way the store reads and writes segment files. Default: mapped.
    public var ioMode: IOMode = .mapped
    /// Whether the store is created where none exists. When false, opening throws
    /// ``StoreError/Code/notAStore`` there. When true, the first write creates the directory;
    /// opening does not.
    public var createIfMissing = true
    /// Whether the store is opened for reading only. Opening then changes nothing, and writes throw
    /// ``StoreError/Code/readOnly``. Other readers, and processes that share the store, may have it
    /// open at the same time. Opening throws ``StoreError/Code/locked`` while a process has the
    /// store open exclusively.
    ///
    /// The store is locked only while it is being opened. After that a writer may open it
    /// exclusively. The reader then continues to see the store as it was at the moment of opening:
    /// mapped segments stay mapped, and without mappings up to 64 segment files stay open. In a
    /// larger store that is read without mappings, a value in a segment that the writer has
    /// compacted away is `.locked` until the writer has closed the store.
    public var isReadOnly = false

    /// Whether the store is opened to follow an archive. All writes come from there.
    package var followsArchive = false

    /// The other openings of the store that are allowed.
    public enum Sharing: Sendable {
      /// No other opening. Opening the store again, in this process or in another one, throws
      /// ``StoreError/Code/locked``.
      case exclusive
      /// Other openings that are shared too, in any number of processes. All of them read and
      /// write, and see the writes of the others. A write holds a lock of the kernel while it
      /// appends, for some microseconds. A read takes no lock. The store must be on a local file
      /// system.
      case shared
    }

    /// The other openings of the store that are allowed. Default: exclusive.
    public var sharing: Sharing = .exclusive

    /// Rules for when compaction runs and which segments it rewrites.
    public var compaction = CompactionPolicy()
    /// The length of the shortest log that gets an index checkpoint, in bytes: 0 to 1 PiB; a value
    /// outside that range counts as the nearer end. Opening reads a shorter log whole, in no
    /// noticeable time. With 0, the store writes a checkpoint whenever it is closed. Default: 1
    /// MiB.
    public var checkpointFloorBytes = 1 << 20

    /// The clock by which entries expire. Default: the clock of the system.
    public var clock: any StoreClock = SystemStoreClock()
    /// Time between the moment at which an entry expires and the moment at which the store deletes
    /// it. Reads do not return the entry in that time. When the clock was wrong by less than this
    /// time, no entry that it hid is lost: correct the clock, and open the store again. Default:
    /// one hour.
    public var expiryGrace: Duration = .seconds(3600)
    /// Time between two searches for expired entries to delete. Default: 10 seconds.
    public var reapInterval: Duration = .seconds(10)

    /// Handler of the events of the store: see ``StoreEvent``. Default: none.
    ///
    /// The handler is called on a background thread, for one event at a time, in the order in which
    /// the events happened. Neither a writer nor a sync waits for the handler. ``Store/close()``
    /// does: it returns when the handler has returned from the last event. So the handler must not
    /// wait for the store; it may start a `Task` that uses the store. A handler that holds the
    /// store keeps it alive.
    ///
    /// Putting and getting make no events. They cost the same with a handler as without one.
    public var onEvent: (@Sendable (StoreEvent) -> Void)?

    /// Whether every keyspace that is created is ordered, also the unnamed one. For tests.
    package var ordersKeyspaces = false
    /// The length of the shortest segment whose successor is created ahead of need, in bytes. Tests
    /// lower it.
    package var spareFloorBytes = 1 << 20
    /// Time without a write after which a store is idle. Tests change it.
    package var idleInterval: Duration = .seconds(2)

    /// Creates the default configuration.
    public init() {}

    /// Adds a handler, which is called after the handlers that were set before.
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
}

extension Store.Configuration {
  /// A grace that never ends, for a store that is being made from another one: an entry may have
  /// ended only by the clock of this machine, which may be wrong.
  static let endlessGrace = Duration.seconds(Int64.max)

  /// A floor that no log reaches: with so high a checkpoint floor, no checkpoint is ever written.
  private static let highestCheckpointFloorBytes = 1 << 50

  /// Returns the configuration that the store uses, with every number limited to its documented
  /// range.
  package func bounded() -> Store.Configuration {
    var result = self
    result.segmentSizeBytes = segmentSizeBytes.clamped(to: StoreLimits.segmentSizeBytes)
    result.checkpointFloorBytes =
      checkpointFloorBytes.clamped(to: 0...Self.highestCheckpointFloorBytes)
    result.compaction = compaction.bounded()
    if isReadOnly || followsArchive { result.createIfMissing = false }
    return result
  }
}

extension CompactionPolicy {
  private static let spaceAmplifications = 1.1...1_000_000
  private static let liveRatios = 0.0...1.0

  /// Returns the policy with every number limited to its range. The default replaces a value that
  /// is not a number.
  fileprivate func bounded() -> CompactionPolicy {
    let usual = CompactionPolicy()
    var result = self
    result.spaceAmplificationLimit =
      spaceAmplificationLimit.isNaN
      ? usual.spaceAmplificationLimit
      : spaceAmplificationLimit.clamped(to: Self.spaceAmplifications)
    result.idleSpaceAmplificationLimit =
      idleSpaceAmplificationLimit.isNaN
      ? usual.idleSpaceAmplificationLimit
      : idleSpaceAmplificationLimit.clamped(to: Self.spaceAmplifications)
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

extension Store.Configuration {
  /// Whether this process alone changes the store's directory while the store is open.
  var isAlone: Bool { sharing == .exclusive && !isReadOnly }
}

/// The state that a write has reached when its call returns.
///
/// At every level, an acknowledged write survives a kill of the process, because its bytes are in
/// the kernel. The levels differ in the writes that a power failure can take.
public struct Durability: Hashable, Sendable {
  enum Level: Hashable, Sendable {
    case sync
    case replicated
    case interval(Duration)
    case none
  }

  let level: Level

  /// The write is on stable storage, so a power failure does not take it. This costs a share of one
  /// `fdatasync`.
  public static let sync = Durability(level: .sync)
  /// The write is on stable storage here and in the archive, so not even the loss of this machine
  /// takes it. This costs a share of one `fdatasync` and of one or two requests to the store of
  /// objects. It needs an archive that a writer is attached to; without one, and while the archive
  /// cannot be reached, the call throws ``StoreError/Code/archiveUnavailable`` when the write is on
  /// stable storage here.
  public static let replicated = Durability(level: .replicated)
  /// The write is synced in the background. A power failure takes at most the writes of the last
  /// `duration` and of the sync under way. The remaining operations are a prefix.
  public static func interval(_ duration: Duration) -> Durability {
    Durability(level: .interval(duration))
  }
  /// The write is synced when its segment is sealed, at ``Store/sync()`` and at ``Store/close()``.
  public static let none = Durability(level: .none)
}
