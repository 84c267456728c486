import Foundation
import MoraineTesting
import Subprocess
import SystemPackage

/// A pool of worker processes that run the laboratory's units. The failure of a worker does not end
/// the run.
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
            // Printed at once: a run of hours may be stopped before its report.
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

  /// - Returns: the results of the units that were run, and the units that were not begun.
  private func work(
    _ units: [LaboratoryUnit]
  ) async -> (results: [UnitResult], rest: [LaboratoryUnit]) {
    let progress = WorkerProgress()
    var ending: String
    var (isInterrupted, hasFailed) = (false, false)
    do {
      let input = try units.map { unit in
        String(decoding: try JSONEncoder().encode(unit), as: UTF8.self) + "\n"
      }
      let result = try await Subprocess.run(
        .path(FilePath(Self.program)),
        arguments: ["crash-test", "worker", "--artifacts", artifacts],
        environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
        input: .inputWriter, output: .sequence, error: .string(limit: 64 << 10)
      ) { execution in
        let process = execution.processIdentifier.value
        let watchdog = Task { await watch(progress, process) }
        defer { watchdog.cancel() }
        let writer = execution.standardInputWriter
        // If the worker has already ended, the write fails; its exit status says why it ended.
        do { _ = try await writer.write(input.joined()) } catch {}
        for try await line in execution.standardOutput.strings() {
          progress.take(line)
          // A worker ends at the end of its input, so the input stays open until all results came.
          if progress.resultCount == units.count { try await writer.finish() }
        }
        try await writer.finish()
      }
      isInterrupted = Self.isInterruption(result.terminationStatus)
      hasFailed = !isInterrupted && result.terminationStatus != .exited(0)
      ending = "\(result.terminationStatus) \(result.standardError)"
    } catch {
      ending = "\(error)"
    }
    return progress.settle(
      units, ending: ending, isInterrupted: isInterrupted, hasFailed: hasFailed,
      timeoutSeconds: timeoutSeconds)
  }

  /// Returns whether a signal ended the worker that it ignores, except just after it started.
  private static func isInterruption(_ status: TerminationStatus) -> Bool {
    guard case .signaled(let signal) = status else { return false }
    return LaboratoryWorker.ignoredSignals.contains(signal)
  }

  /// Kills a worker that prints nothing for too long.
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
