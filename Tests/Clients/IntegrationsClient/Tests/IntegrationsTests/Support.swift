import Moraine
import MoraineTesting
import ServiceLifecycle
import Synchronization

/// Events that a store has reported.
final class EventList: Sendable {
  private let events = Mutex<[StoreEvent]>([])

  func add(_ event: StoreEvent) { events.withLock { $0.append(event) } }

  var isClosedWithoutFailure: Bool {
    events.withLock { events in
      if case .closed(failure: nil) = events.last { return true }
      return false
    }
  }
}

extension DiskFault {
  /// Fault of the first sync of the log. The sync before it is that of the new segment's header.
  static var ofFirstSync: DiskFault {
    DiskFault(.ioError, on: [.sync], file: "0000000001.segment", occurrence: 2)
  }
}

/// Service that writes until it has to end, and then once more.
struct Writer: Service {
  let store: Store
  let durability: Durability

  init(store: Store, _ durability: Durability = .none) {
    self.store = store
    self.durability = durability
  }

  func run() async throws {
    var number = 0
    while !Task.isShuttingDownGracefully, !Task.isCancelled {
      do throws(StoreError) {
        try await store.set([1], forKey: Key("\(number)"), durability: durability)
      } catch {
        // The store's own service ends the group.
        guard error.code == .poisoned || error.code == .closed || error.code == .io else {
          throw error
        }
        try await gracefulShutdown()
      }
      number += 1
      await Task.yield()
    }
    if durability == .none { try await store.set([1], forKey: "last") }
  }
}
