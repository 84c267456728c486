/// The state that a write has reached when its call returns.
///
/// At every level, an acknowledged write survives a kill of the process, because its bytes are in
/// the kernel. The levels differ in the writes that a power failure can take.
public struct Durability: Hashable, Sendable {
  enum Level: Hashable, Sendable {
    case sync
    case interval(Duration)
    case none
  }

  let level: Level

  /// The write is on stable storage, so a power failure does not take it. This costs a share of one
  /// `fdatasync`.
  public static let sync = Durability(level: .sync)
  /// The write is synced in the background. A power failure takes at most the writes of the last
  /// `duration` and of the sync under way. The remaining operations are a prefix.
  public static func interval(_ duration: Duration) -> Durability {
    Durability(level: .interval(duration))
  }
  /// The write is synced when its segment is sealed, at ``Store/sync()`` and at ``Store/close()``.
  public static let none = Durability(level: .none)
}
