import ArgumentParser
import MoraineTesting

/// The crash laboratory on the command line.
struct CrashTest: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "crash-test",
    abstract: "Crashes the engine on a simulated disk and checks what is left.",
    discussion: """
      Runs workloads on a disk in memory that knows what a power failure would leave of
      it, recovers every such disk, and compares it with what was promised: a prefix of
      what was written that has everything acknowledged.

        moraine crash-test                          every scenario, one seed
        moraine crash-test --images 300000          further seeds, until so many disks
        moraine crash-test --scenario mixed-mapped --seed 7 --count 1
        moraine crash-test --nesting-period 1 --subsets 2 --torn 1
                                                    a crash at every call of each recovery
        moraine crash-test faults                   a fault at every call
        moraine crash-test faults --pairs 100       two faults in one run
        moraine crash-test workloads --count 1000   long workloads
        moraine crash-test kills --kills 1000       SIGKILL, on a real process and disk

      Exit code 0 only when nothing was violated, otherwise 3.
      """,
    subcommands: [
      Crashes.self, Workloads.self, Faults.self, Kills.self, LaboratoryWorker.self,
    ],
    defaultSubcommand: Crashes.self)
}

/// A part of the laboratory whose work is done by workers.
protocol LaboratoryCommand: AsyncParsableCommand {
  var options: LaboratoryOptions { get }
  /// What is to be done of each seed, with the first one.
  var units: [LaboratoryUnit] { get }
}

extension CrashTest {
  struct Crashes: LaboratoryCommand {
    static let configuration = CommandConfiguration(
      abstract: "Crashes short workloads at every call that changes the disk (the default).")
    @OptionGroup var options: LaboratoryOptions
    @Option(help: "Go on with further seeds until so many disks were judged.")
    var images: Int?
    @Option(
      help: "Every so many disks the next crash comes during recovery; 1 for all, 0 for never.")
    var nestingPeriod: Int?
    @Option(help: "Combinations of what survives that are tried at each place, at most.")
    var subsets: Int?
    @Option(help: "Disks with torn pages that are tried at each place.")
    var torn: Int?

    func validate() throws {
      if let images, images < 1 { throw ValidationError("--images takes a number from 1") }
      let numbers = [
        ("--nesting-period", nestingPeriod), ("--subsets", subsets), ("--torn", torn),
      ]
      for (name, number) in numbers {
        guard let number, !(0...1_000_000 ~= number) else { continue }
        throw ValidationError("\(name) takes a number from 0 to 1000000")
      }
    }

    var units: [LaboratoryUnit] {
      options.units(.crashes).map { unit in
        var unit = unit
        unit.nestingPeriod = nestingPeriod
        unit.subsetsPerPoint = subsets
        unit.tornPerPoint = torn
        return unit
      }
    }

    func run() async throws { try await options.run(units, imageTarget: images) }
  }

  struct Workloads: LaboratoryCommand {
    static let configuration = CommandConfiguration(
      abstract: "Crashes workloads of 200 steps at a few places.")
    @OptionGroup var options: LaboratoryOptions

    var units: [LaboratoryUnit] { options.units(.workloads) }

    func run() async throws { try await options.run(units) }
  }
}
