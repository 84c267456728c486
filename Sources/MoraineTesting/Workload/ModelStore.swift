public import MoraineEngine

/// What a store must hold, as a dictionary, after each of the operations that were given to it.
public struct ModelStore: Sendable {
  /// All live keys with their values.
  public typealias State = [Key: [UInt8]]

  /// The states: the first is empty, and each other one follows from the operations of one unit.
  public private(set) var states: [State] = [[:]]
  /// For each state, the sequence number of the last operation that led to it.
  public private(set) var sequences: [UInt64] = [0]

  /// A store that nothing was written to.
  public init() {}

  /// A model that knows one state alone.
  init(only state: State) {
    states = [state]
  }

  /// A model of a state and the one that follows.
  init(_ state: State, then next: State) {
    states = [state, next]
    sequences = [0, 1]
  }

  /// The state after all operations.
  public var current: State { states[states.count - 1] }

  /// Sequence number of the last operation.
  public var lastSequence: UInt64 { sequences[sequences.count - 1] }

  /// Takes in operations that happen together or not at all.
  public mutating func apply(_ operations: [WorkloadOperation], sequence: UInt64) {
    states.append(Self.applying(operations, to: current))
    sequences.append(max(sequence, sequences[sequences.count - 1]))
  }

  /// The first state that has everything up to a sequence number.
  public func index(atLeast sequence: UInt64) -> Int {
    sequences.firstIndex { $0 >= sequence } ?? sequences.count - 1
  }

  static func applying(_ operations: [WorkloadOperation], to state: State) -> State {
    var result = state
    for operation in operations { result[operation.key] = operation.value }
    return result
  }
}

extension Store {
  /// Everything that is there.
  ///
  /// - Throws: as ``scan(_:)``.
  package func contents() async throws -> ModelStore.State {
    var result: ModelStore.State = [:]
    for name in [""] + (try await keyspaceNames()) {
      try await scan(in: name) { entry in
        // One that strayed is told apart from the one that belongs there.
        let isAtHome = Self.keyspaceName(of: entry.key) == name
        result[isAtHome ? entry.key : "\(entry.key) in '\(name)'"] = entry.value
        return true
      }
    }
    return result
  }

  private static func keyspaceName(of key: Key) -> String {
    guard let end = key.bytes.firstIndex(of: UInt8(ascii: "/")) else { return "" }
    return String(decoding: key.bytes[..<end], as: UTF8.self)
  }

  /// The keyspace that a workload's key belongs to.
  nonisolated func keyspace(of key: Key) throws(StoreError) -> Keyspace {
    try keyspace(named: Self.keyspaceName(of: key))
  }
}
