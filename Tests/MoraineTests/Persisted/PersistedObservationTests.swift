import Foundation
import Moraine
import Observation
import Testing

@Observable
private final class Preferences {
  @ObservationIgnored @Persisted var theme: Theme
  var unrelated = 0

  init(_ store: PersistedStore) { _theme = Persisted(.theme, in: store) }
}

/// A view that reads a persisted value is drawn again, wherever the value is declared.
@MainActor
@Suite(.timeLimit(.minutes(10))) struct PersistedObservationTests {
  @Test func readingAValueInAModelObservesTheValue() async throws {
    let store = PersistedStore.inMemory()
    let preferences = Preferences(store)
    async let changed: Void = observed { preferences.theme == .dark }
    Persisted(.theme, in: store).wrappedValue = .dark
    await changed
    #expect(preferences.theme == .dark)
  }

  @Test func writesThroughTheKeyspaceAreObserved() async throws {
    let store = PersistedStore.inMemory()
    let preferences = Preferences(store)
    let keyspace = try #require(store.keyspace)
    #expect(preferences.theme == .light)
    try await keyspace.set(Array(#""sepia""#.utf8), forKey: "theme")
    await observed { preferences.theme == .sepia }
    try await keyspace.set([7], forKey: "theme")
    await observed { preferences.$theme.error != nil }
  }

  /// An observer is registered after it has read everything. It would not be notified of a change
  /// that another thread makes after the read and before the registration.
  @Test func aChangeWhileAnObserverReadsIsNotMissed() async throws {
    let theme = Persisted(.theme, in: PersistedStore.inMemory())
    let projection = theme.projectedValue
    let (changes, continuation) = AsyncStream<Void>.makeStream()
    withObservationTracking {
      #expect(theme.wrappedValue == .light)
      let isChanged = DispatchSemaphore(value: 0)
      Thread.detachNewThread {
        projection.withLock { $0 = .dark }
        isChanged.signal()
      }
      isChanged.wait()
    } onChange: {
      continuation.finish()
    }
    for await _ in changes {}
    #expect(!Task.isCancelled, "no observer was notified")
    #expect(theme.wrappedValue == .dark)
  }

  @Test func observersRunWithoutALock() {
    let store = PersistedStore.inMemory()
    let theme = Persisted(.theme, in: store)
    let told = Persisted(wrappedValue: 0, "told", in: store)
    withObservationTracking {
      _ = theme.wrappedValue
    } onChange: {
      // The value that is read here is the new one; the value that is set here is another.
      told.wrappedValue = theme.wrappedValue == .dark ? 1 : 2
    }
    theme.wrappedValue = .dark
    #expect(told.wrappedValue == 1)
  }
}
