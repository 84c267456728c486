/// How a store behaves. The defaults suit an app.
public struct Configuration: Sendable {
  /// How bytes get into the active segment.
  public enum IOMode: Sendable {
    /// Through a mapping of preallocated space: no system call a write. Falls back to
    /// ``positional`` where the file system cannot preallocate.
    case mapped
    /// With `pread` and `pwrite`: slower, and an I/O error while reading is always a thrown error
    /// (a mapping raises `SIGBUS` instead).
    case positional
  }

  /// What an operation waits for unless it says otherwise. Default: at most one second at risk.
  public var durability: Durability = .interval(.seconds(1))
  /// When a segment is sealed and the next begins, in bytes: 256 to 1 GiB. A record that is larger
  /// gets a segment of its own. Default: 64 MiB.
  public var segmentSizeBytes = 64 << 20
  public var ioMode: IOMode = .mapped
  /// When false, opening where no store is throws ``StoreError/Code/notAStore``. When true, the
  /// directory is made at the first write, not before.
  public var createIfMissing = true
  /// Opens without changing anything; writes throw ``StoreError/Code/readOnly``.
  public var isReadOnly = false

  public var compaction = CompactionPolicy()

  /// Below so many bytes of log, opening reads it all, and no index checkpoint is written.
  package var checkpointFloorBytes = 1 << 20

  public init() {}
}
