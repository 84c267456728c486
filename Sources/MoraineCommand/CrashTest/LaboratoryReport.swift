import Foundation
import MoraineTesting

/// The results of a run of the laboratory.
struct LaboratoryReport: Codable {
  var tally = CrashTally()
  var violations: [CrashViolation] = []
  var unitCount = 0
  /// The number of planned units; nil if it is not known.
  var plannedCount: Int?
  var elapsedSeconds = 0.0

  func print(_ unit: LaboratoryUnit?, asJSON: Bool) throws {
    if asJSON {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
      try Output.line(String(decoding: try encoder.encode(self), as: UTF8.self))
      return
    }
    for violation in violations { try Output.line("VIOLATION \(violation)\n") }
    try Output.line(summary(unit))
    if let plannedCount, unitCount < plannedCount {
      try Output.line("Incomplete: \(unitCount) of \(plannedCount) workloads were run.")
    }
  }

  /// - Parameter unit: one of the units of the run.
  private func summary(_ unit: LaboratoryUnit?) -> String {
    let seconds = String(format: "%.1f s", elapsedSeconds)
    let end = "\(violations.count) violations, \(seconds)"
    switch unit?.kind {
    case nil, .crashes, .workloads:
      let opened = tally.distinctImages + tally.nestedImages
      return """
        \(unitCount) workloads of \(tally.steps) steps, crashed at \(tally.crashPoints) points:
        \(tally.images) disks that a crash can leave, \(tally.distinctImages) of them different, \
        and \(tally.nestedImages) that further crashes during recovery can leave.
        \(opened) opened and checked: \(end)
        """
    case .faults:
      let what =
        unit?.faults.isEmpty == false
        ? "the named faults"
        : unit?.pairCount == nil ? "a fault at each call" : "two faults in each"
      return """
        \(unitCount) workloads with each kind of fault, \(tally.faultRuns) runs, \(what); \
        \(tally.missedCalls) calls were not reached: \(end)
        """
    }
  }
}
