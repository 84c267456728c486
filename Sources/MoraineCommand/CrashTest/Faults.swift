import ArgumentParser
import MoraineTesting

/// Faults instead of crashes: one at each call, two in one run, or only the named ones.
struct Faults: LaboratoryCommand {
  static let configuration = CommandConfiguration(
    abstract: "Runs each workload once for each of its calls, with a fault at that call.",
    discussion: """
      The faults are EIO, ENOSPC, EMFILE, a short write, EINTR, and a sync that
      fails and drops the bytes it should have written. Each fault occurs once, or
      at the call and all later ones.

        moraine crash-test faults --effect eio --lasting false
        moraine crash-test faults --pairs 100       two in a run, 100 pairs for each

      A violation is printed with its faults, which --fault repeats.
      """)
  @OptionGroup var options: LaboratoryOptions
  @Option(
    help: "eio, enospc, emfile, short30, eintr or drop; of a pair, the first. Default: all.")
  var effect: String?
  @Option(help: "Whether the fault lasts: true or false. Default: both.")
  var lasting: Bool?
  @Option(
    help: "Two faults in each run; at most this number of pairs for each first fault."
  )
  var pairs: Int?
  @Option(
    help: "Only this fault, as printed: fault,once,opening,call,number,file. Twice for a pair.")
  var fault: [String] = []

  func validate() throws {
    if let effect, Self.place(of: effect) == nil {
      let names = FaultLaboratory.effects.map(\.name).joined(separator: ", ")
      throw ValidationError("no fault is named '\(effect)'; the names are \(names)")
    }
    if let pairs, pairs < 1 { throw ValidationError("--pairs takes a number from 1") }
    for text in fault where PlannedFault(text) == nil {
      throw ValidationError(
        "'\(text)' is no fault; an example is eio,once,0,write,3,0000000001.segment")
    }
    guard fault.isEmpty || (effect == nil && lasting == nil && pairs == nil) else {
      throw ValidationError("--fault excludes --effect, --lasting and --pairs")
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
