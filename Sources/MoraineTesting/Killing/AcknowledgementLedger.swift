/// The state that a program is supposed to keep, as the harness tracks it beside the program.
public protocol KillModel: Sendable {
  /// What changes the state, all of it or nothing: one put, one batch, one transaction.
  associatedtype Operation: Sendable

  /// Changes the state as the program does when it carries the operation out.
  mutating func apply(_ operation: Operation)
}

/// What was found in the store after a kill.
public enum KillFinding<Model: KillModel>: Sendable {
  /// Everything acknowledged, and so many of the operations in flight, the oldest first.
  case survivors(Int)
  /// This state, which the script has found to be a permitted one. For programs whose operations
  /// do not survive in the order in which they were sent.
  case state(Model)
}

/// Knows what a program was told to do, and what of it the program has acknowledged.
///
/// An operation is in flight from the moment it is sent until it is answered. A kill leaves the
/// ones in flight open: each may be there or not. What is acknowledged must be there.
///
/// Answers come in the order of sending, so that the oldest operation in flight is the next to be
/// acknowledged, and a prefix of the ones in flight is what may have survived.
public struct AcknowledgementLedger<Model: KillModel>: Sendable {
  /// Everything acknowledged, and everything that was found to have survived a kill.
  public private(set) var model: Model
  /// Sent and not answered, the oldest first.
  public private(set) var inFlight: [Model.Operation] = []
  /// Operations acknowledged so far.
  public private(set) var acknowledgedCount = 0
  /// Operations that were in flight at a kill and are there.
  public private(set) var survivedCount = 0
  /// Operations that were in flight at a kill and are not there.
  public private(set) var vanishedCount = 0

  /// - Parameter model: the state of an empty folder.
  public init(_ model: Model) {
    self.model = model
  }

  /// Notes an operation that goes to the program now.
  public mutating func send(_ operation: Model.Operation) {
    inFlight.append(operation)
  }

  /// Notes that the oldest operation in flight is acknowledged.
  ///
  /// - Returns: false when nothing is in flight.
  @discardableResult
  public mutating func acknowledge() -> Bool {
    guard !inFlight.isEmpty else { return false }
    acknowledge(inFlight.removeFirst())
    return true
  }

  /// Notes an acknowledged operation that the program chose by itself.
  public mutating func acknowledge(_ operation: Model.Operation) {
    model.apply(operation)
    acknowledgedCount += 1
  }

  /// Notes that the program answered the oldest operation in flight, and has not carried it out.
  public mutating func refuse() {
    if !inFlight.isEmpty { inFlight.removeFirst() }
  }

  /// How many of the operations in flight, the oldest first, make the state what it is seen to be.
  ///
  /// - Returns: nil when a kill cannot leave this state.
  public func survivors(where isSeen: (Model) throws -> Bool) rethrows -> Int? {
    var candidate = model
    if try isSeen(candidate) { return 0 }
    for (index, operation) in inFlight.enumerated() {
      candidate.apply(operation)
      if try isSeen(candidate) { return index + 1 }
    }
    return nil
  }

  /// Takes over what was found after a kill. Nothing is in flight any more.
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
