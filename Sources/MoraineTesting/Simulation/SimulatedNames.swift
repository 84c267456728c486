import Synchronization

/// The names in a directory: those of now, and those that a power failure cannot take.
final class SimulatedNames: Sendable {
  private struct State {
    var current: [String: SimulatedContent] = [:]
    var synced: [String: SimulatedContent] = [:]
  }

  private let state = Mutex(State())

  func content(_ name: String) -> SimulatedContent? { state.withLock { $0.current[name] } }

  func add(_ name: String, _ content: SimulatedContent) {
    state.withLock { $0.current[name] = content }
  }

  func rename(_ source: String, to target: String) {
    state.withLock { $0.current[target] = $0.current.removeValue(forKey: source) }
  }

  func remove(_ name: String) { state.withLock { $0.current[name] = nil } }

  func synchronize() { state.withLock { $0.synced = $0.current } }

  /// Says of names that lead where they led at a moment what of that was safe then.
  func restore(_ names: [DiskMoment.Name]) {
    state.withLock { state in
      for name in names {
        let content = state.current[name.name]
        if let current = name.current { content?.setSynced(current.synced) }
        state.synced[name.name] = name.isSynced ? content : name.synced.map(SimulatedContent.init)
      }
    }
  }

  /// Each name, with what it leads to now and what it led to at the last sync.
  func entries() -> [DiskMoment.Name] {
    let state = state.withLock { $0 }
    let names = Set(state.current.keys).union(state.synced.keys).sorted()
    return names.map { name in
      let (current, synced) = (state.current[name], state.synced[name])
      return DiskMoment.Name(
        name: name, current: current?.versions(),
        synced: current === synced ? nil : synced?.versions(), isSynced: current === synced)
    }
  }
}
