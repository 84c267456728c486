import MoraineEngine
import Synchronization
import Testing

/// Events that a store has reported, in their order.
final class EventLog: Sendable {
  private let state = Mutex((events: [StoreEvent](), isInside: false))

  /// Serves as the handler of a store. Events that arrive at the same time fail the test.
  func add(_ event: StoreEvent) {
    let wasInside = state.withLock { state in
      defer { state.isInside = true }
      return state.isInside
    }
    #expect(!wasInside, "two events at once")
    state.withLock { state in
      state.events.append(event)
      state.isInside = false
    }
  }

  var events: [StoreEvent] { state.withLock { $0.events } }
  var names: [String] { events.map(\.name) }

  func count(_ name: String) -> Int { names.count { $0 == name } }

  func failures(_ name: String) -> [StoreError] {
    events.filter { $0.name == name }.compactMap(\.failure)
  }

  /// Waits until such an event arrives.
  func arrival(of name: String, times: Int = 1) async {
    while count(name) < times { await Task.yield() }
  }
}

extension Store.Configuration {
  func telling(_ log: EventLog) -> Store.Configuration {
    var result = self
    result.onEvent = log.add
    return result
  }
}

extension StoreEvent {
  var name: String {
    switch self {
    case .opened: "opened"
    case .segmentSealed: "sealed"
    case .compacted: "compacted"
    case .compactionFailed: "compactionFailed"
    case .checkpointWritten: "checkpointWritten"
    case .checkpointFailed: "checkpointFailed"
    case .entriesExpired: "entriesExpired"
    case .reapingFailed: "reapingFailed"
    case .clockJumped: "clockJumped"
    case .keyspaceOrdering: "keyspaceOrdering"
    case .keyspaceOrdered: "keyspaceOrdered"
    case .indexBuilding: "indexBuilding"
    case .indexBuilt: "indexBuilt"
    case .indexBuildingFailed: "indexBuildingFailed"
    case .manifestFailed: "manifestFailed"
    case .outOfSpace: "outOfSpace"
    case .poisoned: "poisoned"
    case .suspended: "suspended"
    case .closed: "closed"
    }
  }

  var failure: StoreError? {
    switch self {
    case .compactionFailed(let error), .checkpointFailed(let error), .manifestFailed(let error),
      .outOfSpace(let error), .poisoned(let error):
      error
    case .suspended(let error), .closed(let error): error
    default: nil
    }
  }
}
