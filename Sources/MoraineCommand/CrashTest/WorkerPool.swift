import Foundation
import MoraineTesting
import Subprocess
import SystemPackage

/// Has workers do the laboratory's work, and outlives whatever befalls them.
struct WorkerPool: Sendable {
  let jobs: Int
  let timeoutSeconds: Double
  let artifacts: String
  private static let unitsPerWorker = 4

  func run(_ queue: UnitQueue, isQuiet: Bool) async -> LaboratoryReport {
    let began = ContinuousClock.now
    let bar = ProgressBar("crashing")
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<jobs {
        group.addTask {
          while true {
            let units = queue.next(Self.unitsPerWorker)
            if units.isEmpty { return }
            let (results, rest) = await work(units)
            queue.giveBack(rest)
            queue.take(results)
            // At once: a run of hours may be ended from outside.
            for violation in results.compactMap(\.violation) {
              Output.note("VIOLATION \(violation)")
            }
            if !isQuiet { bar.say(queue.progress) }
          }
        }
      }
    }
    bar.finish()
    var report = queue.report
    report.elapsedSeconds = (ContinuousClock.now - began) / .seconds(1)
    return report
  }

  /// - Returns: what came of the pieces that were done, and those that were not begun.
  private func work(
    _ units: [LaboratoryUnit]
  ) async -> (results: [UnitResult], rest: [LaboratoryUnit]) {
    let progress = WorkerProgress()
    var ending: String
    do {
      let input = try units.map { unit in
        String(decoding: try JSONEncoder().encode(unit), as: UTF8.self) + "\n"
      }
      let result = try await Subprocess.run(
        .path(FilePath(Self.program)),
        arguments: ["crash-test", "worker", "--artifacts", artifacts],
        environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
        input: .array(Array(input.joined().utf8)), output: .sequence,
        error: .string(limit: 64 << 10)
      ) { execution in
        let process = execution.processIdentifier.value
        let watchdog = Task { await watch(progress, process) }
        defer { watchdog.cancel() }
        for try await line in execution.standardOutput.strings() { progress.take(line) }
      }
      ending = "\(result.terminationStatus) \(result.standardError)"
    } catch {
      ending = "\(error)"
    }
    return progress.settle(units, ending: ending, timeoutSeconds: timeoutSeconds)
  }

  /// Ends a worker that says nothing for too long.
  private func watch(_ progress: WorkerProgress, _ process: Int32) async {
    while !Task.isCancelled {
      do { try await Task.sleep(for: .milliseconds(200)) } catch { return }
      if progress.hangs(longerThan: .seconds(timeoutSeconds)) {
        kill(process, SIGKILL)
        return
      }
    }
  }

  private static var program: String {
    do {
      return try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    } catch {
      return Bundle.main.executablePath ?? CommandLine.arguments[0]
    }
  }
}
