import MoraineEngine

/// The contents that a store may have, given what it acknowledged: the oracle of runs with
/// faults.
///
/// - An acknowledged unit is present.
/// - A unit whose write threw is absent if the store still accepts writes: the store took it back.
/// - A unit whose write threw and poisoned the store is present as a whole, or absent (P7).
/// - A unit that a poisoned store refused is absent.
/// - A power failure may remove units that were not durable, from the end.
struct PossibleStates {
  typealias State = ModelStore.State

  /// The states that were possible at each moment since all writes were last durable.
  private var history: [[State]] = [[[:]]]

  var states: [State] { history[history.count - 1] }

  mutating func acknowledged(_ unit: [WorkloadOperation], isDurable: Bool) {
    history.append(states.map { ModelStore.applying(unit, to: $0) })
    if isDurable { becameDurable() }
  }

  mutating func maybe(_ unit: [WorkloadOperation]) {
    var next = states
    for state in next.map({ ModelStore.applying(unit, to: $0) }) where !next.contains(state) {
      next.append(state)
    }
    history.append(next)
  }

  mutating func becameDurable() { history = [states] }

  /// Records that a read showed this state. Later reads must show it too, as long as no power
  /// failure occurs (P4).
  ///
  /// - Returns: whether the state was possible.
  mutating func saw(_ state: State) -> Bool {
    guard states.contains(state) else { return false }
    history[history.count - 1] = [state]
    return true
  }

  func allows(_ value: [UInt8]?, for key: Key) -> Bool { states.contains { $0[key] == value } }

  /// Whether a power failure at this moment may leave this state.
  func allowsAfterPowerFailure(_ state: State) -> Bool {
    history.contains { $0.contains(state) }
  }
}
