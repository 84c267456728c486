import MoraineEngine

/// The contents that a store may have, given the answers that its writer got: the oracle of the
/// tests with faults.
///
/// - An acknowledged step is present.
/// - A step that threw and left the store writable is absent (it was reverted).
/// - A step that threw and poisoned the store may be present as a whole (P7).
/// - A step that a poisoned store refused is absent.
struct PossibleStates {
  typealias State = [Key: [UInt8]]
  /// One atomic unit; a nil value is a delete.
  typealias Step = [(key: Key, value: [UInt8]?)]

  private(set) var states: [State] = [[:]]

  mutating func acknowledged(_ step: Step) { states = states.map { Self.apply(step, to: $0) } }

  mutating func maybe(_ step: Step) {
    let after = states.map { Self.apply(step, to: $0) }
    for state in after where !states.contains(state) { states.append(state) }
  }

  /// Records a state that the store has returned, which must not change any more (P4).
  ///
  /// - Returns: whether the state was possible.
  mutating func saw(_ state: State) -> Bool {
    guard states.contains(state) else { return false }
    states = [state]
    return true
  }

  func allows(_ value: [UInt8]?, for key: Key) -> Bool { states.contains { $0[key] == value } }

  private static func apply(_ step: Step, to state: State) -> State {
    var result = state
    for operation in step { result[operation.key] = operation.value }
    return result
  }
}

extension Store {
  /// Returns all records.
  func contents() async throws -> PossibleStates.State {
    var result: PossibleStates.State = [:]
    try await scan { entry in
      result[entry.key] = entry.value
      return true
    }
    return result
  }
}
