import Foundation
public import Observation
import Synchronization

/// The registrar of the observers of one persisted value.
///
/// The class is not generic, so that the key path for the registrar is created only once.
@usableFromInline
final class PersistedSignal: Observable, Sendable {
  @usableFromInline let registrar = ObservationRegistrar()
  /// The key path, one for all signals; each has a reference of its own to it.
  @usableFromInline let path: any KeyPath<PersistedSignal, Bool> & Sendable = sharedPath
  private let isDueOnMain = Atomic(false)
  fileprivate var changed: Bool { false }

  init() {}

  @inlinable
  func access() { registrar.access(self, keyPath: path) }

  /// Calls the observers, after the change: a change may come from any thread, and an observer that
  /// reads the value at once must not find the old one. The caller must not hold a lock: observers
  /// may read the value.
  ///
  /// A change from another thread may come after an observer has read the value and before it is
  /// registered: `withObservationTracking` registers at its end. So the observers are called once
  /// more on the main actor. There an observer on the main actor, such as a view, reads and
  /// registers without interruption.
  func notifyObservers() {
    callObservers()
    guard !Thread.isMainThread else { return }
    guard !isDueOnMain.exchange(true, ordering: .acquiringAndReleasing) else { return }
    Task { @MainActor in
      // This comes first: a change from now on must schedule another call.
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
