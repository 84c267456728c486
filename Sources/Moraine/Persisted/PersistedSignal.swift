import Foundation
public import Observation
import Synchronization

/// What observers of one persisted value are registered with.
///
/// Not generic, so that the key path that the registrar asks for is made once.
@usableFromInline
final class PersistedSignal: Observable, Sendable {
  @usableFromInline let registrar = ObservationRegistrar()
  /// One for all of them, and at hand in each.
  @usableFromInline let path: any KeyPath<PersistedSignal, Bool> & Sendable = sharedPath
  private let isDueOnMain = Atomic(false)
  fileprivate var changed: Bool { false }

  init() {}

  @inlinable
  func access() { registrar.access(self, keyPath: path) }

  /// Calls observers, after the change: a change may come from any thread, and who looks again at
  /// once must not find the old value. Holding a lock meanwhile is not allowed: they may read the
  /// value.
  ///
  /// A change from another thread may come when an observer has read the value and is not
  /// registered yet: `withObservationTracking` registers at its end. So observers on the main
  /// actor, as views are, are told once more from there, where nothing comes in between.
  func tell() {
    callObservers()
    guard !Thread.isMainThread else { return }
    guard !isDueOnMain.exchange(true, ordering: .acquiringAndReleasing) else { return }
    Task { @MainActor in
      // First: who changes the value from now on, asks for the next time.
      _ = isDueOnMain.exchange(false, ordering: .acquiringAndReleasing)
      callObservers()
    }
  }

  private func callObservers() {
    registrar.willSet(self, keyPath: path)
    registrar.didSet(self, keyPath: path)
  }
}

private let sharedPath: any KeyPath<PersistedSignal, Bool> & Sendable = \.changed
