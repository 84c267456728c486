/// The state that a program must keep. The harness tracks it beside the program.
public protocol KillModel: Sendable {
  /// An atomic change of the state: one put, one batch, one transaction.
  associatedtype Operation: Sendable

  /// Changes the state as the program does when it performs the operation.
  mutating func apply(_ operation: Operation)
}

/// The state that the store had after a kill.
public enum KillFinding<Model: KillModel>: Sendable {
  /// Every acknowledged operation, and the given number of the operations in flight, the oldest
  /// first.
  case survivors(Int)
  /// The given state, which the script has found to be permitted. For programs whose operations do
  /// not survive in the order in which they were sent.
  case state(Model)
}

/// The operations that were sent to a program, and those that the program has acknowledged.
///
/// An operation is in flight from its sending until its answer. After a kill each operation in
/// flight may exist or not. Every acknowledged operation must exist.
///
/// Answers arrive in the order of sending. Therefore the oldest operation in flight is acknowledged
/// next, and a prefix of the operations in flight may survive a kill.
public struct AcknowledgementLedger<Model: KillModel>: Sendable {
  /// State of all operations that were acknowledged, or found to have survived a kill.
  public private(set) var model: Model
  /// Operations that were sent and not answered, the oldest first.
  public private(set) var inFlight: [Model.Operation] = []
  /// Number of acknowledged operations.
  public private(set) var acknowledgedCount = 0
  /// Number of operations that were in flight at a kill and survived.
  public private(set) var survivedCount = 0
  /// Number of operations that were in flight at a kill and did not survive.
  public private(set) var vanishedCount = 0

  /// - Parameter model: the state of an empty folder.
  public init(_ model: Model) {
    self.model = model
  }

  /// Records an operation that is about to be sent to the program.
  public mutating func send(_ operation: Model.Operation) {
    inFlight.append(operation)
  }

  /// Records that the oldest operation in flight is acknowledged.
  ///
  /// - Returns: false when no operation is in flight.
  @discardableResult
  public mutating func acknowledge() -> Bool {
    guard !inFlight.isEmpty else { return false }
    acknowledge(inFlight.removeFirst())
    return true
  }

  /// Records an acknowledged operation that the program chose by itself.
  public mutating func acknowledge(_ operation: Model.Operation) {
    model.apply(operation)
    acknowledgedCount += 1
  }

  /// Records that the program answered the oldest operation in flight without performing it.
  public mutating func refuse() {
    if !inFlight.isEmpty { inFlight.removeFirst() }
  }

  /// Returns the number of operations in flight, the oldest first, that lead to a state which meets
  /// the condition.
  ///
  /// - Returns: nil when a kill cannot leave such a state.
  public func survivors(where isSeen: (Model) throws -> Bool) rethrows -> Int? {
    var candidate = model
    if try isSeen(candidate) { return 0 }
    for (index, operation) in inFlight.enumerated() {
      candidate.apply(operation)
      if try isSeen(candidate) { return index + 1 }
    }
    return nil
  }

  /// Adopts the state that was found after a kill. Afterwards no operation is in flight.
  public mutating func settle(_ finding: KillFinding<Model>) {
    switch finding {
    case .survivors(let count):
      precondition(0...inFlight.count ~= count, "\(count) of \(inFlight.count) survive")
      for operation in inFlight.prefix(count) { model.apply(operation) }
      survivedCount += count
      vanishedCount += inFlight.count - count
    case .state(let state):
      model = state
    }
    inFlight = []
  }
}
