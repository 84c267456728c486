/// The rule for which decoded models a repository keeps in memory.
public struct CachePolicy: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case none, all
    case models(Int)
    case bytes(Int)
  }

  let kind: Kind

  /// No cache: each `find` reads and decodes the model.
  public static let none = CachePolicy(kind: .none)
  /// A cache of every model that was saved or found, for the lifetime of the repository.
  public static let all = CachePolicy(kind: .all)

  /// A cache of about `models` models, the most recently used ones. Below 1 it is ``none``.
  public static func bounded(models: Int) -> CachePolicy {
    models < 1 ? .none : CachePolicy(kind: .models(models))
  }

  /// A cache of the most recently used models. Their encoded forms together have about `bytes`
  /// bytes. Below 1 it is ``none``.
  public static func bounded(bytes: Int) -> CachePolicy {
    bytes < 1 ? .none : CachePolicy(kind: .bytes(bytes))
  }
}
