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
    var nonsense: String? { didSet { nonsensePlace = results.count } }
    /// The number of units that were finished when the worker printed that line.
    private var nonsensePlace: Int?

    /// Returns what is wrong with a worker that did not hang.
    func finding(_ ending: String) -> String {
      nonsense.map { "the worker printed: \($0)" } ?? "the worker ended: \(ending)"
    }

    /// Returns the results of a worker that answered for all units, with a violation of the unit
    /// that ran when the worker failed, or else of the last one. A violation that the worker has
    /// found itself stays: it says more.
    func blaming(_ units: [LaboratoryUnit], _ ending: String) -> [UnitResult] {
      let place = min(nonsensePlace ?? units.count, units.count - 1)
      guard place >= 0, results[place].violation == nil else { return results }
      var all = results
      all[place].violation = units[place].violation(finding(ending))
      return all
    }
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

  /// Assigns the failure of a worker to the unit that it was running; after its last answer, to its
  /// last unit.
  ///
  /// - Parameters:
  ///   - isInterrupted: whether a signal from outside ended the worker. That says nothing about its
  ///     unit, which is run again.
  ///   - hasFailed: whether the worker ended in another way than in order.
  /// - Returns: the results, with one for the unit at which the worker died, and the other units.
  func settle(
    _ units: [LaboratoryUnit], ending: String, isInterrupted: Bool = false,
    hasFailed: Bool = false, timeoutSeconds: Double
  ) -> (results: [UnitResult], rest: [LaboratoryUnit]) {
    let state = state.withLock { $0 }
    guard state.results.count < units.count else {
      let isSound = state.nonsense == nil && (!hasFailed || state.isHung)
      return (isSound ? state.results : state.blaming(units, ending), [])
    }
    if isInterrupted, !state.isHung { return (state.results, Array(units[state.results.count...])) }
    let unit = units[state.results.count]
    let finding =
      state.isHung
      ? "it hung: no progress for \(timeoutSeconds) s" : state.finding(ending)
    let dead = UnitResult(tally: CrashTally(), violation: unit.violation(finding))
    return (state.results + [dead], Array(units[(state.results.count + 1)...]))
  }
}

extension LaboratoryUnit {
  /// Returns the violation of a worker that ran this unit.
  fileprivate func violation(_ finding: String) -> CrashViolation {
    CrashViolation(
      scenario: scenario, seed: seed, circumstances: "one of the \(kind.rawValue)",
      finding: finding, replay: replay)
  }
}
