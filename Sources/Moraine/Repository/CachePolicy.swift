/// Which decoded models a repository keeps in memory.
public struct CachePolicy: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case none, all
    case models(Int)
    case bytes(Int)
  }

  let kind: Kind

  /// None: each `find` reads and decodes.
  public static let none = CachePolicy(kind: .none)
  /// Every model that was saved or found, for as long as the repository lives.
  public static let all = CachePolicy(kind: .all)

  /// About so many of those last used. Below 1 it is ``none``.
  public static func bounded(models: Int) -> CachePolicy {
    models < 1 ? .none : CachePolicy(kind: .models(models))
  }

  /// Those last used whose encoded forms have about so many bytes together. Below 1 it is ``none``.
  public static func bounded(bytes: Int) -> CachePolicy {
    bytes < 1 ? .none : CachePolicy(kind: .bytes(bytes))
  }
}
