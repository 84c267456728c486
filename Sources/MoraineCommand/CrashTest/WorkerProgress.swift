import Foundation
import MoraineTesting
import Synchronization

/// The progress of a worker, computed from the lines that it prints.
final class WorkerProgress: Sendable {
  private struct State {
    var results: [UnitResult] = []
    var lastSeen = ContinuousClock.now
    var isHung = false
    /// A line that no worker prints by design.
    var nonsense: String?
  }

  private let state = Mutex(State())

  func take(_ line: String) {
    state.withLock { state in
      state.lastSeen = .now
      if line == "alive" { return }
      guard line.hasPrefix("end ") else {
        state.nonsense = line
        return
      }
      do {
        let answer = Data(line.dropFirst(4).utf8)
        state.results.append(try JSONDecoder().decode(UnitResult.self, from: answer))
      } catch {
        state.nonsense = "\(line) (\(error))"
      }
    }
  }

  /// Returns whether the worker printed nothing for longer than the limit, now or at an earlier
  /// call.
  func hangs(longerThan limit: Duration) -> Bool {
    state.withLock { state in
      if .now - state.lastSeen > limit { state.isHung = true }
      return state.isHung
    }
  }

  /// The number of units that were finished.
  var resultCount: Int { state.withLock { $0.results.count } }

  /// Assigns the end of a worker to the unit that it was running.
  ///
  /// - Parameter isInterrupted: whether a signal from outside ended the worker. That says nothing
  ///   about its unit, which is run again.
  /// - Returns: the results, with one for the unit at which the worker died, and the other units.
  func settle(
    _ units: [LaboratoryUnit], ending: String, isInterrupted: Bool = false, timeoutSeconds: Double
  ) -> (results: [UnitResult], rest: [LaboratoryUnit]) {
    let state = state.withLock { $0 }
    guard state.results.count < units.count else { return (state.results, []) }
    if isInterrupted, !state.isHung { return (state.results, Array(units[state.results.count...])) }
    let unit = units[state.results.count]
    let finding =
      state.isHung
      ? "it hung: no progress for \(timeoutSeconds) s"
      : state.nonsense.map { "the worker printed: \($0)" } ?? "the worker ended: \(ending)"
    let violation = CrashViolation(
      scenario: unit.scenario, seed: unit.seed, circumstances: "one of the \(unit.kind.rawValue)",
      finding: finding, replay: unit.replay)
    let dead = UnitResult(tally: CrashTally(), violation: violation)
    return (state.results + [dead], Array(units[(state.results.count + 1)...]))
  }
}
