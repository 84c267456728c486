import MoraineEngine

/// What a store may hold, by what its writer was told: the oracle of the tests with faults.
///
/// - An acknowledged step is there.
/// - A step that threw and left the store able to write is not there (it was taken back).
/// - A step that threw and poisoned the store may be there, whole (P7).
/// - A step that a poisoned store refused is not there.
struct PossibleStates {
  typealias State = [Key: [UInt8]]
  /// One atomic unit; no value is a delete.
  typealias Step = [(key: Key, value: [UInt8]?)]

  private(set) var states: [State] = [[:]]

  mutating func acknowledged(_ step: Step) { states = states.map { Self.apply(step, to: $0) } }

  mutating func maybe(_ step: Step) {
    let after = states.map { Self.apply(step, to: $0) }
    for state in after where !states.contains(state) { states.append(state) }
  }

  /// What was served once must not change any more (P4).
  ///
  /// - Returns: whether it was possible.
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
  /// Everything that is there.
  func contents() async throws -> PossibleStates.State {
    var result: PossibleStates.State = [:]
    try await forEach { entry in
      result[entry.key] = entry.value
      return true
    }
    return result
  }
}
