import MoraineEngine

/// A value that is kept in a store: it is there in the next run, and everybody in this one agrees
/// on it.
///
/// ```swift
/// @Persisted("theme") var theme = Theme.light      // in a struct, a class, or a function
/// theme = .dark                                    // visible at once, saved in the background
/// try await $theme.save()                          // and durable now
/// for await theme in $theme.values { apply(theme) }
/// ```
///
/// - Reading never touches the disk, from any thread: what the store held was read when it was
///   opened.
/// - All that name one key of one store share one value. What others write to the key, by
///   ``/MoraineEngine/Store/set(_:forKey:durability:)`` or in another process, arrives in it.
/// - Setting is visible at once. It is appended in the background, and the settings of one store in
///   the order they were set: what is on disk is always a state that this process had. A process
///   that ends by itself right after setting awaits ``PersistedProjection/save()`` first.
/// - A value that could not be saved stays, for it is what the user has chosen; the error is in
///   ``PersistedProjection/error``, and it is tried again with the next set in the same store or
///   ``PersistedProjection/save()``. Something else that arrives for the key takes its place.
/// - What is stored and cannot be read is never overwritten: the value is the default, the error
///   says why, and setting changes nothing until ``PersistedProjection/overwrite(with:)`` or
///   ``PersistedProjection/reset()``.
/// - Reading it in a view, or in `withObservationTracking`, observes it, wherever it is declared.
///   In an `@Observable` class it is declared `@ObservationIgnored`, for it brings its own
///   observation.
@propertyWrapper
public struct Persisted<Value: Codable & Sendable>: Sendable {
  @usableFromInline let box: PersistedBox<Value>
  let space: PersistedSpace

  /// - Parameters:
  ///   - wrappedValue: what it is when nothing is stored. Where several name one key, the first's
  ///     counts.
  ///   - name: the key's, in the store.
  ///   - store: where it is kept.
  public init(wrappedValue: Value, _ name: String, in store: PersistedStore = .default) {
    self.init(PersistedKey(name, default: wrappedValue), in: store)
  }

  /// An optional value, which is nil while nothing is stored.
  ///
  /// ```swift
  /// @Persisted("name") var name: String?
  /// ```
  public init(
    _ name: String, in store: PersistedStore = .default
  ) where Value: ExpressibleByNilLiteral {
    self.init(PersistedKey(name, default: nil), in: store)
  }

  /// A value whose key is declared elsewhere, with its default.
  public init(_ key: PersistedKey<Value>, in store: PersistedStore = .default) {
    space = store.space
    box = space.box(key)
  }

  /// - Complexity: O(1): some nanoseconds, and a copy of the value.
  public var wrappedValue: Value {
    @inlinable get { box.value }
    nonmutating set { box.set(newValue, in: space) }
  }

  /// What else can be done with it, and what happened to it.
  public var projectedValue: PersistedProjection<Value> {
    PersistedProjection(box: box, space: space)
  }
}
