import ArgumentParser
import MoraineTesting

/// Faults instead of crashes: one at each call, two in one run, or just those that were named.
struct Faults: LaboratoryCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs workloads once for each of their calls, with a fault at it.",
    discussion: """
      The faults: EIO, ENOSPC, EMFILE, a short write, EINTR, and a sync that fails and
      drops what it should have written; each once and from then on.

        moraine crash-test faults --effect eio --lasting false
        moraine crash-test faults --pairs 100       two in a run, so many for each

      What was violated is printed with the very faults, which --fault repeats.
      """)
  @OptionGroup var options: LaboratoryOptions
  @Option(help: "eio, enospc, emfile, short30, eintr or drop; the first of a pair. Default: each.")
  var effect: String?
  @Option(help: "Whether it lasts: true or false. Default: each.")
  var lasting: Bool?
  @Option(
    help: "Two faults in each run, so many pairs for each first fault; all, when there are no more."
  )
  var pairs: Int?
  @Option(help: "Only this, as printed: fault,once,life,call,number,file. Twice for a pair.")
  var fault: [String] = []

  func validate() throws {
    if let effect, Self.place(of: effect) == nil {
      let names = FaultLaboratory.effects.map(\.name).joined(separator: ", ")
      throw ValidationError("no fault is named '\(effect)'; there are \(names)")
    }
    if let pairs, pairs < 1 { throw ValidationError("--pairs takes a number from 1") }
    for text in fault where PlannedFault(text) == nil {
      throw ValidationError(
        "'\(text)' is no fault; one is eio,once,0,write,3,0000000001.segment")
    }
    guard fault.isEmpty || (effect == nil && lasting == nil && pairs == nil) else {
      throw ValidationError("--fault says all; --effect, --lasting and --pairs are for others")
    }
  }

  private static func place(of effect: String) -> Int? {
    FaultLaboratory.effects.firstIndex { $0.name == effect }
  }

  var units: [LaboratoryUnit] {
    options.units(.faults).flatMap { unit in
      var unit = unit
      unit.faults = fault.compactMap { PlannedFault($0) }
      if !fault.isEmpty { return [unit] }
      unit.pairCount = pairs
      let effects =
        effect.flatMap(Self.place).map { [$0] } ?? Array(FaultLaboratory.effects.indices)
      return effects.flatMap { effect in
        (lasting.map { [$0] } ?? [false, true]).map { isPermanent in
          unit.effect = effect
          unit.isPermanent = isPermanent
          return unit
        }
      }
    }
  }

  func run() async throws { try await options.run(units) }
}
