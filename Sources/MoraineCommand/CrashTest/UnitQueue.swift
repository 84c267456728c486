import Foundation
import MoraineTesting
import Synchronization

/// The queue of units of work of one run of the laboratory.
final class UnitQueue: Sendable {
  private struct State {
    var round: UInt64 = 0
    var pending: [LaboratoryUnit] = []
    var returned: [LaboratoryUnit] = []
    var report = LaboratoryReport()
  }

  /// Units of the first seed.
  private let units: [LaboratoryUnit]
  private let firstSeed: UInt64
  private let count: UInt64
  private let imageTarget: Int?
  private let deadline: ContinuousClock.Instant?
  private let state = Mutex(State())

  init(_ units: [LaboratoryUnit], _ options: LaboratoryOptions, imageTarget: Int?) {
    self.units = units
    firstSeed = options.seed
    count = imageTarget == nil ? options.count : .max - options.seed
    self.imageTarget = imageTarget
    deadline = options.timeBudget.map { .now + .seconds($0) }
  }

  /// The number of units of all seeds; nil if it is not known.
  private var total: Int? {
    guard imageTarget == nil else { return nil }
    let (total, isTooLarge) = Int(clamping: count).multipliedReportingOverflow(
      by: units.count)
    return isTooLarge ? .max : total
  }

  /// Removes up to `wanted` units from the queue and returns them; empty if none are left.
  func next(_ wanted: Int) -> [LaboratoryUnit] {
    state.withLock { state in
      if let deadline, .now > deadline { return [] }
      // More violations would add no information.
      if state.report.violations.count >= 20 { return [] }
      var result: [LaboratoryUnit] = []
      // A worker finishes all units that it received, also after the deadline: send one at a time.
      let wanted = deadline == nil ? wanted : 1
      while result.count < wanted, let unit = take(&state) { result.append(unit) }
      return result
    }
  }

  private func take(_ state: inout State) -> LaboratoryUnit? {
    if let unit = state.returned.popLast() { return unit }
    if state.pending.isEmpty {
      if let imageTarget, state.report.tally.judgedImages >= imageTarget { return nil }
      guard state.round < count else { return nil }
      // Reversed, because `popLast` takes from the end.
      state.pending = round(firstSeed + state.round).reversed()
      state.round += 1
    }
    return state.pending.popLast()
  }

  /// Returns the units of one seed.
  private func round(_ seed: UInt64) -> [LaboratoryUnit] {
    units.map { unit in
      var unit = unit
      unit.seed = seed
      return unit
    }
  }

  /// Returns units to the queue that a worker did not begin.
  func giveBack(_ units: [LaboratoryUnit]) { state.withLock { $0.returned += units } }

  func take(_ results: [UnitResult]) {
    state.withLock { state in
      for result in results {
        state.report.tally += result.tally
        state.report.unitCount += 1
        if let violation = result.violation { state.report.violations.append(violation) }
      }
    }
  }

  var report: LaboratoryReport {
    var report = state.withLock { $0.report }
    report.plannedCount = total
    return report
  }

  /// The progress as one line of text.
  var progress: String {
    let state = state.withLock { $0 }
    let part = "\(state.report.unitCount)" + (total.map { " of \($0)" } ?? "")
    let tally = state.report.tally
    return units.first?.kind == .faults
      ? "\(part) workloads, \(tally.faultRuns) faults"
      : "\(part) workloads, \(tally.judgedImages) disks"
  }
}
