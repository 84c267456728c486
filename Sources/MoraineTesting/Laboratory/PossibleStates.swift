import MoraineEngine

/// What a store may hold, by what its writer was told: the oracle of runs with faults.
///
/// - An acknowledged unit is there.
/// - A unit that threw and left the store able to write is not there: it was taken back.
/// - A unit that threw and poisoned the store may be there, whole (P7).
/// - A unit that a poisoned store refused is not there.
/// - A power failure may take what was not durable, from the end.
struct PossibleStates {
  typealias State = ModelStore.State

  /// For each moment since everything was last durable, the states that were possible.
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

  /// What was served once must not change any more (P4), for as long as the machine lives.
  ///
  /// - Returns: whether it was possible.
  mutating func saw(_ state: State) -> Bool {
    guard states.contains(state) else { return false }
    history[history.count - 1] = [state]
    return true
  }

  func allows(_ value: [UInt8]?, for key: Key) -> Bool { states.contains { $0[key] == value } }

  /// Whether a power failure now may leave it.
  func allowsAfterPowerFailure(_ state: State) -> Bool {
    history.contains { $0.contains(state) }
  }
}
