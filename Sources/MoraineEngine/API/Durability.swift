/// What has happened to a write when its call returns.
///
/// Whatever the level, a process that is killed loses nothing it was told is written: the bytes are
/// in the kernel's hands. The levels differ in what a power failure can take.
public struct Durability: Hashable, Sendable {
  enum Level: Hashable, Sendable {
    case sync
    case interval(Duration)
    case none
  }

  let level: Level

  /// On stable storage: a power failure takes nothing. Costs a share of one `fdatasync`.
  public static let sync = Durability(level: .sync)
  /// Synced in the background: a power failure takes at most the last `duration` and the sync under
  /// way; what is left is a prefix.
  public static func interval(_ duration: Duration) -> Durability {
    Durability(level: .interval(duration))
  }
  /// Synced when a segment is sealed, at ``Store/sync()`` and at ``Store/close()``.
  public static let none = Durability(level: .none)
}
