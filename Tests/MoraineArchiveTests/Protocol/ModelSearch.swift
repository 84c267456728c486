import MoraineArchive

/// A state of the model: numbers of ``ModelTables``.
struct ModelState: Equatable {
  var world: UInt32
  var reader: UInt32
  var writers: SIMD4<UInt32>

  var hash: UInt64 {
    var hash = UInt64(world) << 32 | UInt64(reader)
    for index in 0..<2 {
      hash = (hash ^ (hash >> 29)) &* 0xbf58_476d_1ce4_e5b9
      hash ^= UInt64(writers[2 * index]) << 32 | UInt64(writers[2 * index + 1])
    }
    hash = (hash ^ (hash >> 32)) &* 0x94d0_49bb_1331_11eb
    return hash ^ (hash >> 31)
  }
}

/// The states that were visited, in their order, each with the state before it.
struct VisitedStates {
  private(set) var states: [ModelState] = []
  private(set) var parents: [UInt32] = []
  /// Numbers of states plus one, by hash; zero is a free place.
  private var table = [UInt32](repeating: 0, count: 1 << 16)

  /// Adds the state. Returns false when it was visited before.
  mutating func insert(_ state: ModelState, parent: UInt32) -> Bool {
    if states.count * 2 >= table.count { grow() }
    var place = Int(truncatingIfNeeded: state.hash) & (table.count - 1)
    while table[place] != 0 {
      if states[Int(table[place]) - 1] == state { return false }
      place = (place + 1) & (table.count - 1)
    }
    states.append(state)
    parents.append(parent)
    table[place] = UInt32(states.count)
    return true
  }

  private mutating func grow() {
    table = [UInt32](repeating: 0, count: table.count * 4)
    for (number, state) in states.enumerated() {
      var place = Int(truncatingIfNeeded: state.hash) & (table.count - 1)
      while table[place] != 0 { place = (place + 1) & (table.count - 1) }
      table[place] = UInt32(number + 1)
    }
  }
}

/// The result of a search.
struct ModelResult: CustomStringConvertible {
  let configuration: ModelConfiguration
  var stateCount = 0
  var stepCount = 0
  var acknowledgements = 0
  /// Whether each state that can be reached was visited.
  var isComplete = true
  var violation: ModelViolation?
  var path: [ModelStep] = []

  var description: String {
    let end = violation.map { "\($0)" } ?? "no violation"
    let steps = path.map { "\n  \($0)" }.joined()
    return "\(configuration): \(stateCount) states, \(stepCount) steps, \(acknowledgements) "
      + "acknowledgements, \(isComplete ? "complete" : "not complete"): \(end)\(steps)"
  }
}

/// Visits all interleavings of the requests of the machines, the shortest first, up to the first
/// violation.
final class ModelSearch {
  let configuration: ModelConfiguration
  let tables: ModelTables
  var result: ModelResult
  private var visited = VisitedStates()
  /// The state whose steps are made.
  private var current: UInt32 = 0
  /// The step to find, when a path is made: the state that it leads to.
  private var sought: ModelState?
  private var soughtStep: ModelStep?

  init(_ configuration: ModelConfiguration) {
    precondition(configuration.writers <= 4 && configuration.positions <= 8, "the size is small")
    self.configuration = configuration
    tables = ModelTables(configuration)
    result = ModelResult(configuration: configuration)
  }

  /// Searches and returns the result.
  static func run(_ configuration: ModelConfiguration) -> ModelResult {
    ModelSearch(configuration).run()
  }

  func run() -> ModelResult {
    var writers = SIMD4<UInt32>()
    for index in 0..<configuration.writers {
      writers[index] = tables.writers.number(of: ModelWriter(number: UInt8(index)))
    }
    let reader = ModelReader(machine: HistoryReader(nil, rules: configuration.rules))
    let start = ModelState(
      world: tables.worlds.number(of: ModelWorld()), reader: tables.readers.number(of: reader),
      writers: writers)
    _ = visited.insert(start, parent: 0)
    var next = 0
    while next < visited.states.count {
      if visited.states.count > configuration.stateLimit {
        result.isComplete = false
        break
      }
      current = UInt32(next)
      do throws(ModelViolation) {
        try visitSteps(of: visited.states[next])
      } catch {
        result.violation = error
        result.isComplete = false
        let last = soughtStep
        result.path = path(to: current)
        if let last { result.path.append(last) }
        break
      }
      next += 1
    }
    result.stateCount = visited.states.count
    return result
  }

  /// Records a state that a step leads to, after the step's claims were checked.
  func reach(_ state: ModelState, _ step: @autoclosure () -> ModelStep) {
    if let sought {
      if state == sought, soughtStep == nil { soughtStep = step() }
      return
    }
    result.stepCount += 1
    _ = visited.insert(state, parent: current)
  }

  /// Ends the search with a violation.
  func fail(_ description: String, _ step: ModelStep) -> ModelViolation {
    if sought == nil { soughtStep = step }
    return ModelViolation(description)
  }

  private func path(to last: UInt32) -> [ModelStep] {
    var steps: [ModelStep] = []
    var number = last
    while number != 0 {
      let parent = visited.parents[Int(number)]
      sought = visited.states[Int(number)]
      soughtStep = nil
      do throws(ModelViolation) {
        try visitSteps(of: visited.states[Int(parent)])
      } catch {
        preconditionFailure("the search ended at an earlier state")
      }
      if let soughtStep { steps.append(soughtStep) }
      number = parent
    }
    return steps.reversed()
  }
}
