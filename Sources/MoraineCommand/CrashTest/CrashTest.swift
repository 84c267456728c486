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
        moraine crash-test faults                   a fault at every call
        moraine crash-test workloads --count 1000   long workloads
        moraine crash-test kills --kills 1000       SIGKILL, on a real process and disk

      Exit code 0 only when nothing was violated, otherwise 3.
      """,
    subcommands: [
      Crashes.self, Workloads.self, Faults.self, Kills.self, LaboratoryWorker.self,
    ],
    defaultSubcommand: Crashes.self)
}

extension CrashTest {
  struct Crashes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Crashes short workloads at every call that changes the disk (the default).")
    @OptionGroup var options: LaboratoryOptions
    @Option(help: "Go on with further seeds until so many disks were judged.")
    var images: Int?

    func validate() throws {
      if let images, images < 1 { throw ValidationError("--images takes a number from 1") }
    }

    func run() async throws {
      try await options.run(.crashes, imageTarget: images)
    }
  }

  struct Workloads: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Crashes workloads of 200 steps at a few places.")
    @OptionGroup var options: LaboratoryOptions

    func run() async throws { try await options.run(.workloads) }
  }

  struct Faults: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Runs workloads once for each of their calls, with a fault at it.",
      discussion: """
        The faults: EIO, ENOSPC, EMFILE, a short write, EINTR, and a sync that fails and
        drops what it should have written; each once and from then on.
        """)
    @OptionGroup var options: LaboratoryOptions

    func run() async throws { try await options.run(.faults) }
  }
}
