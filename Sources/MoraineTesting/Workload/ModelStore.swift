public import MoraineEngine

/// A dictionary that models a store: the contents that the store must have after each unit of
/// operations.
public struct ModelStore: Sendable {
  /// The live keys with their values.
  public typealias State = [Key: [UInt8]]

  /// The states in order: the first is empty, and each unit of operations adds one.
  public private(set) var states: [State] = [[:]]
  /// For each state, the sequence number of the last operation that led to it.
  public private(set) var sequences: [UInt64] = [0]

  /// Creates a model of an empty store.
  public init() {}

  /// Creates a model with one known state.
  init(only state: State) {
    states = [state]
  }

  /// Creates a model with a known state and the state that follows it.
  init(_ state: State, then next: State) {
    states = [state, next]
    sequences = [0, 1]
  }

  /// The state after all operations.
  public var current: State { states[states.count - 1] }

  /// The sequence number of the last operation.
  public var lastSequence: UInt64 { sequences[sequences.count - 1] }

  /// Applies a unit of operations, which happen together or not at all.
  public mutating func apply(_ operations: [WorkloadOperation], sequence: UInt64) {
    states.append(Self.applying(operations, to: current))
    sequences.append(max(sequence, sequences[sequences.count - 1]))
  }

  /// Returns the first state that contains every operation up to a sequence number.
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
  /// Returns all keys of all keyspaces with their values.
  ///
  /// - Throws: the errors of ``scan(_:)``.
  package func contents() async throws -> ModelStore.State {
    var result: ModelStore.State = [:]
    for name in [""] + (try await keyspaceNames()) {
      try await scan(in: name) { entry in
        // The name of the keyspace distinguishes a key in the wrong keyspace from the same key in
        // the right one.
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

  /// Returns the keyspace of a workload's key.
  nonisolated func keyspace(of key: Key) throws(StoreError) -> Keyspace {
    try keyspace(named: Self.keyspaceName(of: key))
  }
}
