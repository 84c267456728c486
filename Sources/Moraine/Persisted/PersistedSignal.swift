public import Observation

/// What observers of one persisted value are registered with.
///
/// Not generic, so that the key path that the registrar asks for is made once.
@usableFromInline
final class PersistedSignal: Observable, Sendable {
  private let registrar = ObservationRegistrar()
  private static let path: any KeyPath<PersistedSignal, Bool> & Sendable = \.changed
  private var changed: Bool { false }

  init() {}

  @usableFromInline
  func access() { registrar.access(self, keyPath: Self.path) }

  /// Calls observers, after the change: a change may come from any thread, and who looks again at
  /// once must not find the old value. Holding a lock meanwhile is not allowed: they may read the
  /// value.
  func tell() {
    registrar.willSet(self, keyPath: Self.path)
    registrar.didSet(self, keyPath: Self.path)
  }
}
