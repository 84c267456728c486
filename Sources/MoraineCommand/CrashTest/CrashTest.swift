import ArgumentParser
import MoraineTesting

/// The crash laboratory on the command line.
struct CrashTest: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "crash-test",
    abstract: "Crashes the engine on a simulated disk and checks the recovered stores.",
    discussion: """
      Runs workloads on a simulated disk in memory, which computes the states that a
      power failure can leave. Recovers the store in each of these states, and
      compares it with the promise: a prefix of the operations that contains all
      acknowledged ones.

        moraine crash-test                          every scenario, one seed
        moraine crash-test --images 300000          seeds for up to 300,000 disks
        moraine crash-test --scenario mixed-mapped --seed 7 --count 1
        moraine crash-test --nesting-period 1 --subsets 2 --torn 1
                                                    a crash at every call of a
                                                    recovery
        moraine crash-test faults                   a fault at every call
        moraine crash-test faults --pairs 100       two faults in one run
        moraine crash-test workloads --count 1000   long workloads
        moraine crash-test kills --kills 1000       SIGKILL, a real process and disk

      Exit code 0 if no promise was violated, otherwise 3.
      """,
    subcommands: [
      Crashes.self, Workloads.self, Faults.self, Kills.self, LaboratoryWorker.self,
      TransactionWorker.self,
    ],
    defaultSubcommand: Crashes.self)
}

/// A subcommand of the laboratory whose work is done by worker processes.
protocol LaboratoryCommand: AsyncParsableCommand {
  var options: LaboratoryOptions { get }
  /// The units of work of the first seed; those of other seeds differ only in the seed.
  var units: [LaboratoryUnit] { get }
}

extension CrashTest {
  struct Crashes: LaboratoryCommand {
    static let configuration = CommandConfiguration(
      abstract: "Crashes short workloads at every call that changes the disk (the default).")
    @OptionGroup var options: LaboratoryOptions
    @Option(help: "Continue with further seeds until this number of disks was checked.")
    var images: Int?
    @Option(
      help: "Crash again during the recovery of every N-th disk; 1 means every disk, 0 none.")
    var nestingPeriod: Int?
    @Option(help: "The maximum of combinations of surviving writes tried at each crash point.")
    var subsets: Int?
    @Option(help: "The number of disks with torn pages tried at each crash point.")
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
      abstract: "Crashes workloads of 200 steps at a few points.")
    @OptionGroup var options: LaboratoryOptions

    var units: [LaboratoryUnit] { options.units(.workloads) }

    func run() async throws { try await options.run(units) }
  }
}
