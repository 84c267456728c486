import MoraineEngine

/// A value that is saved in a store. The next run of the program has it, and all parts of this run
/// share it.
///
/// ```swift
/// @Persisted("theme") var theme = Theme.light      // in a struct, a class, or a function
/// theme = .dark                                    // visible at once, saved in the background
/// try await $theme.save()                          // and durable now
/// for await theme in $theme.values { apply(theme) }
/// ```
///
/// - Reading is possible on any thread and never touches the disk: all settings are read when their
///   store is opened.
/// - All properties that name one key of one store share one value. The value also follows writes
///   to the key by ``/MoraineEngine/Store/set(_:forKey:durability:)`` and by other processes.
/// - A new value is visible at once and is appended in the background. The settings of one store
///   are appended in the order in which they were set: the disk always holds a state that this
///   process had. A value that is encoded like the one in the store is not written again.
/// - At the end of the process in order (`main` returns, or `exit` is called), values that are not
///   saved yet are saved and synchronized, for up to five seconds. If that fails, the process
///   writes their names and the reason to its standard error. A process that is killed, or that
///   calls `_exit`, loses them: await ``PersistedProjection/save()`` where that counts.
/// - A value that could not be saved stays, because the user has chosen it.
///   ``PersistedProjection/error`` has the error. The next set in the same store and
///   ``PersistedProjection/save()`` try again. A newer value from another writer replaces it.
/// - A stored value that cannot be read is never overwritten: the property has its default,
///   ``PersistedProjection/error`` has the reason, and setting has no effect until
///   ``PersistedProjection/overwrite(with:)`` or ``PersistedProjection/reset()`` is called.
/// - A view, or `withObservationTracking`, that reads the value observes it, wherever the property
///   is declared. In an `@Observable` class declare the property `@ObservationIgnored`: it has its
///   own observation.
@propertyWrapper
public struct Persisted<Value: Codable & Sendable>: Sendable {
  @usableFromInline let box: PersistedBox<Value>
  let space: PersistedSpace

  /// Creates a property for a key.
  ///
  /// - Parameters:
  ///   - wrappedValue: the value when nothing is stored. If several properties name one key, the
  ///     default of the first one counts.
  ///   - name: the name of the key in the store.
  ///   - store: the store of the value.
  public init(wrappedValue: Value, _ name: String, in store: PersistedStore = .default) {
    self.init(PersistedKey(name, default: wrappedValue), in: store)
  }

  /// Creates a property with an optional value, which is nil while nothing is stored.
  ///
  /// ```swift
  /// @Persisted("name") var name: String?
  /// ```
  public init(
    _ name: String, in store: PersistedStore = .default
  ) where Value: ExpressibleByNilLiteral {
    self.init(PersistedKey(name, default: nil), in: store)
  }

  /// Creates a property for a ``PersistedKey``, which has the name and the default.
  public init(_ key: PersistedKey<Value>, in store: PersistedStore = .default) {
    space = store.space
    box = space.box(key)
  }

  /// The value.
  ///
  /// - Complexity: O(1): some nanoseconds, and a copy of the value.
  public var wrappedValue: Value {
    @inlinable get { box.value }
    nonmutating set { box.set(newValue, in: space) }
  }

  /// The other operations on the value, and its error.
  public var projectedValue: PersistedProjection<Value> {
    PersistedProjection(box: box, space: space)
  }
}
