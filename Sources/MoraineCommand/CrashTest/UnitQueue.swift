import Foundation
import MoraineTesting
import Synchronization

/// The pieces of work of one run of the laboratory, handed out one after the other.
final class UnitQueue: Sendable {
  private struct State {
    var round: UInt64 = 0
    var pending: [LaboratoryUnit] = []
    var returned: [LaboratoryUnit] = []
    var report = LaboratoryReport()
  }

  /// Of the first seed.
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

  /// How many there are in all; nil when that is not known.
  private var total: Int? {
    guard imageTarget == nil else { return nil }
    let (total, isTooLarge) = Int(clamping: count).multipliedReportingOverflow(
      by: units.count)
    return isTooLarge ? .max : total
  }

  /// Some pieces to do next; empty when there are no more.
  func next(_ wanted: Int) -> [LaboratoryUnit] {
    state.withLock { state in
      if let deadline, .now > deadline { return [] }
      // After some, the next ones tell nothing new.
      if state.report.violations.count >= 20 { return [] }
      var result: [LaboratoryUnit] = []
      // What a worker has been given it finishes.
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
      // The first comes last out of it.
      state.pending = round(firstSeed + state.round).reversed()
      state.round += 1
    }
    return state.pending.popLast()
  }

  /// One seed of all.
  private func round(_ seed: UInt64) -> [LaboratoryUnit] {
    units.map { unit in
      var unit = unit
      unit.seed = seed
      return unit
    }
  }

  /// Gives back what a worker did not come to.
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

  /// In a line.
  var progress: String {
    let state = state.withLock { $0 }
    let part = "\(state.report.unitCount)" + (total.map { " of \($0)" } ?? "")
    let tally = state.report.tally
    return units.first?.kind == .faults
      ? "\(part) workloads, \(tally.faultRuns) faults"
      : "\(part) workloads, \(tally.judgedImages) disks"
  }
}
