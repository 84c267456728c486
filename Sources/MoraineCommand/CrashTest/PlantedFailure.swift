import Foundation
import MoraineTesting

/// A failure of a worker instead of a unit of work, for the tests of the laboratory itself:
/// `MORAINE_PLANT_IN_WORKER=trap:7` traps at the units of seed 7.
enum PlantedFailure: String {
  case trap, hang, exit, nonsense, chatter, flood

  static func strike(_ unit: LaboratoryUnit) {
    guard let text = ProcessInfo.processInfo.environment["MORAINE_PLANT_IN_WORKER"] else { return }
    let parts = text.split(separator: ":")
    guard parts.count == 2, let failure = PlantedFailure(rawValue: String(parts[0])),
      unit.seed == UInt64(parts[1])
    else { return }
    failure.strike()
  }

  private func strike() {
    switch self {
    case .trap: fatalError("a planted trap")
    case .hang: while true { sleep(1000) }
    case .exit: _exit(0)
    case .nonsense:
      print("nonsense")
      fflush(nil)
      _exit(0)
    // The unit is run nevertheless.
    case .chatter:
      print("chatter")
      fflush(nil)
    // More error output than the parent keeps.
    case .flood: while true { Output.note(String(repeating: "x", count: 4096)) }
    }
  }
}
