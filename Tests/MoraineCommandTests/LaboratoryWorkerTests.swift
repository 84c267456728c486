import Foundation
import MoraineTesting
import Subprocess
import SystemPackage
import Testing

@testable import MoraineCommand

/// Real workers that fail, and parents that end: the laboratory reports the failure, and no
/// process or file stays.
@Suite(.timeLimit(.minutes(10))) struct LaboratoryWorkerTests {
  let place: Place

  init() throws { place = try Place() }

  /// Few disks: this suite tests the workers.
  private static let names = [
    "--scenario", "one-key-mapped", "--subsets", "0", "--torn", "0", "--nesting-period", "0",
  ]

  /// Runs three units, of seeds 1 to 3; the unit of seed 2 fails.
  private func run(_ failure: String, timeoutSeconds: String = "120") async throws -> Outcome {
    let command =
      ["crash-test"] + Self.names + ["--count", "3", "--timeout-seconds", timeoutSeconds]
    return try await Moraine.shell(
      #"failure="$1"; shift; MORAINE_PLANT_IN_WORKER="$failure:2" exec "$0" "$@""#,
      [failure] + command + ["--json", "--artifacts", place.store])
  }

  private struct Report: Decodable {
    let violations: [CrashViolation]
    let unitCount: Int
    let tally: CrashTally
  }

  /// One violation, with the command that repeats it; the other units run nevertheless.
  @Test(arguments: [
    ("trap", "120", "a planted trap"), ("exit", "120", "exited(0)"),
    ("nonsense", "120", "the worker printed: nonsense"),
    ("chatter", "120", "the worker printed: chatter"), ("hang", "30", "it hung"),
    ("flood", "30", "it hung"),
  ])
  func aWorkerThatFailsIsReported(failure: String, timeout: String, words: String) async throws {
    let outcome = try await run(failure, timeoutSeconds: timeout)
    #expect(outcome.code == 3, "\(outcome.errors)")
    let report = try JSONDecoder().decode(Report.self, from: Data(outcome.output))
    #expect(report.violations.count == 1 && report.unitCount == 3, "\(outcome.text)")
    let violation = try #require(report.violations.first)
    #expect(violation.finding.contains(words), "\(violation)")
    #expect(violation.seed == 2)
    #expect(
      violation.replay
        == "moraine crash-test crashes --scenario one-key-mapped --seed 2 --count 1"
        + " --nesting-period 0 --subsets 0 --torn 0")
    #expect(report.tally.distinctImages > 60, "the two other units were run")
  }

  #if os(Linux)
    /// However the parent ends, by SIGKILL too: its workers read the end of their input, and end
    /// even when they hang.
    @Test(arguments: [Signal.kill, .interrupt, .terminate])
    func workersEndWithTheirParent(signal: Signal) async throws {
      let command =
        ["crash-test"] + Self.names + ["--count", "100", "--jobs", "3", "--seed", "2"]
      let environment = Moraine.environment.updating(["MORAINE_PLANT_IN_WORKER": "hang:2"])
      let workers = try await Subprocess.run(
        .path(FilePath(Moraine.path)), arguments: Arguments(command), environment: environment,
        input: .none, output: .discarded, error: .discarded
      ) { execution in
        let workers = try await Processes.children(
          of: execution.processIdentifier.value, atLeast: 3)
        try execution.send(signal: signal)
        return workers
      }.closureResult
      for worker in workers { try await Processes.end(of: worker) }
    }

    /// A terminal sends SIGINT to all processes; a parent that continues does not report that as a
    /// violation.
    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func aSignalToAWorkerIsNoViolation(signal: Int32) async throws {
      let command =
        ["crash-test"] + Self.names
        + ["--count", "12", "--jobs", "1", "--json", "--artifacts", place.store]
      let result = try await Subprocess.run(
        .path(FilePath(Moraine.path)), arguments: Arguments(command),
        environment: Moraine.environment, input: .none, output: .sequence, error: .discarded
      ) { execution in
        try await Processes.strike(childrenOf: execution.processIdentifier.value, 2, signal)
        var text = ""
        for try await line in execution.standardOutput.strings() { text += line }
        return text
      }
      #expect(result.terminationStatus == .exited(0), "\(result.closureResult)")
      let report = try JSONDecoder().decode(Report.self, from: Data(result.closureResult.utf8))
      #expect(report.unitCount == 12 && report.violations.isEmpty, "\(report)")
    }
  #endif
}

#if os(Linux)
  /// Other processes, as the kernel reports them.
  enum Processes {
    /// Waits until a process has at least `count` children.
    static func children(of process: Int32, atLeast count: Int) async throws -> [Int32] {
      while true {
        try Task.checkCancellation()
        let children = try children(of: process)
        if children.count >= count { return children }
        try await Task.sleep(for: .milliseconds(5))
      }
    }

    /// Sends a signal to the first children, in whatever state they are.
    ///
    /// Runs on a thread of its own: among many tests, a task may get its next turn after the
    /// children have ended.
    static func strike(childrenOf process: Int32, _ count: Int, _ signal: Int32) async throws {
      try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        Thread.detachNewThread {
          done.resume(
            with: Result {
              var struck: Set<Int32> = []
              while struck.count < count {
                for worker in try children(of: process) where !struck.contains(worker) {
                  kill(worker, signal)
                  struck.insert(worker)
                }
                // The kernel does not notify about the children of another process.
                Thread.sleep(forTimeInterval: 0.001)
              }
            })
        }
      }
    }

    private static func children(of process: Int32) throws -> [Int32] {
      try #require(state(of: process) != "Z", "the process ended before it had enough children")
      let path = "/proc/\(process)/task"
      var children: [Int32] = []
      for thread in try FileManager.default.contentsOfDirectory(atPath: path) {
        // A thread may end while the files are read.
        let text = try? String(contentsOfFile: "\(path)/\(thread)/children", encoding: .utf8)
        children += (text ?? "").split(separator: " ").compactMap { Int32($0) }
      }
      return children.filter(isWorker)
    }

    /// Waits until a process has ended, or only its exit code is left.
    static func end(of process: Int32) async throws {
      while let state = state(of: process), state != "Z" {
        try Task.checkCancellation()
        try await Task.sleep(for: .milliseconds(5))
      }
    }

    /// Whether the process runs the program that it was started for.
    private static func isWorker(_ process: Int32) -> Bool {
      let text = try? String(contentsOfFile: "/proc/\(process)/cmdline", encoding: .utf8)
      return text?.split(separator: "\0").dropFirst(2).first == "worker"
    }

    private static func state(of process: Int32) -> Substring? {
      let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
      // The name before the state is in parentheses and may contain any character.
      return text?.split(separator: ")").last?.split(separator: " ").first
    }
  }
#endif
