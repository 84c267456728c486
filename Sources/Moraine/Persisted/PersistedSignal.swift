public import Observation

/// What observers of one persisted value are registered with.
///
/// Not generic, so that the key path that the registrar asks for is made once.
@usableFromInline
final class PersistedSignal: Observable, Sendable {
  @usableFromInline let registrar = ObservationRegistrar()
  /// One for all of them, and at hand in each.
  @usableFromInline let path: any KeyPath<PersistedSignal, Bool> & Sendable = sharedPath
  fileprivate var changed: Bool { false }

  init() {}

  @inlinable
  func access() { registrar.access(self, keyPath: path) }

  /// Calls observers, after the change: a change may come from any thread, and who looks again at
  /// once must not find the old value. Holding a lock meanwhile is not allowed: they may read the
  /// value.
  func tell() {
    registrar.willSet(self, keyPath: path)
    registrar.didSet(self, keyPath: path)
  }
}

private let sharedPath: any KeyPath<PersistedSignal, Bool> & Sendable = \.changed
