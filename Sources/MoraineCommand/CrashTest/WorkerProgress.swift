import Foundation
import MoraineTesting
import Synchronization

/// How far a worker has come with its pieces, by the lines that it prints.
final class WorkerProgress: Sendable {
  private struct State {
    var results: [UnitResult] = []
    var lastSeen = ContinuousClock.now
    var isHung = false
    /// What is no line of a worker's.
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

  /// Whether nothing was said for so long; then it is remembered.
  func hangs(longerThan limit: Duration) -> Bool {
    state.withLock { state in
      if .now - state.lastSeen > limit { state.isHung = true }
      return state.isHung
    }
  }

  /// How many pieces were done.
  var resultCount: Int { state.withLock { $0.results.count } }

  /// - Parameter isInterrupted: whether the worker was ended from outside, which says nothing about
  ///   its piece: that is begun again.
  /// - Returns: the results, with one for the piece that the worker died of, and what is left.
  func settle(
    _ units: [LaboratoryUnit], ending: String, isInterrupted: Bool = false, timeoutSeconds: Double
  ) -> (results: [UnitResult], rest: [LaboratoryUnit]) {
    let state = state.withLock { $0 }
    guard state.results.count < units.count else { return (state.results, []) }
    if isInterrupted, !state.isHung { return (state.results, Array(units[state.results.count...])) }
    let unit = units[state.results.count]
    let finding =
      state.isHung
      ? "it hung: nothing happened for \(timeoutSeconds) s"
      : state.nonsense.map { "the worker said: \($0)" } ?? "the worker ended by itself: \(ending)"
    let violation = CrashViolation(
      scenario: unit.scenario, seed: unit.seed, circumstances: "one of the \(unit.kind.rawValue)",
      finding: finding, replay: unit.replay)
    let dead = UnitResult(tally: CrashTally(), violation: violation)
    return (state.results + [dead], Array(units[(state.results.count + 1)...]))
  }
}
