import BenchmarkSupport
import Foundation
import Subprocess
import SystemPackage

/// Runs all groups of all engines, round by round, so that other work of the machine affects all
/// engines alike.
struct Comparison: Sendable {
  let plan: Plan
  let rounds: Int
  let groups: [String]
  /// The engines to measure; nil for all of them.
  let engines: Set<String>?
  let directory: String
  /// Time limit of one group of one engine. After it the process is ended and the group is omitted.
  let timeout: Duration
  /// A group of an engine that has taken longer than this is not measured again.
  let repeatLimit: Duration

  /// - Parameter afterRound: receives the figures so far, so that a long run that is interrupted
  ///   leaves them.
  func run(into report: inout Report, afterRound: (Report) throws -> Void) async throws {
    var measuredOnce: Set<[String]> = []
    for round in 1...rounds {
      for group in groups {
        for engine in plan.engines(of: group) where engines?.contains(engine) ?? true {
          guard !measuredOnce.contains([group, engine]) else { continue }
          note("round \(round) of \(rounds): \(group), \(engine)")
          let folder = try Scratch(in: directory)
          defer { folder.remove() }
          let began = ContinuousClock.now
          defer { note("  \(began.duration(to: .now).formatted(.units(allowed: [.seconds])))") }
          do {
            report.take(try await measure(group, engine, folder.folder))
          } catch let failure as Failure {
            report.failures.append("\(engine), \(group): \(failure.description)")
            note("  \(failure.description)")
          }
          if began.duration(to: .now) > repeatLimit { measuredOnce.insert([group, engine]) }
        }
      }
      try afterRound(report)
    }
  }

  /// Measures one group of one engine in a process, and ends the process when it takes too long.
  private func measure(
    _ group: String, _ engine: String, _ folder: String
  ) async throws -> Recorder {
    try await withThrowingTaskGroup(of: Recorder.self) { tasks in
      tasks.addTask { try await run(group, engine, folder) }
      tasks.addTask {
        try await Task.sleep(for: timeout)
        throw Failure(description: "it took longer than \(timeout) and was ended")
      }
      defer { tasks.cancelAll() }
      return try await tasks.next()!
    }
  }

  private func run(_ group: String, _ engine: String, _ folder: String) async throws -> Recorder {
    let size = String(decoding: try JSONEncoder().encode(plan.size), as: UTF8.self)
    let result = try await Subprocess.run(
      .path(FilePath(Bundle.main.executablePath ?? CommandLine.arguments[0])),
      arguments: [
        "measure", "--engine", engine, "--group", group, "--folder", folder, "--size", size,
      ], environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]), input: .none,
      output: .bytes(limit: 16 << 20), error: .string(limit: 1 << 20))
    guard case .exited(0) = result.terminationStatus else {
      throw Failure(
        description: "\(result.terminationStatus) \(result.standardError)".trimmed)
    }
    return try JSONDecoder().decode(Recorder.self, from: Data(result.standardOutput))
  }

  struct Failure: Error {
    let description: String
  }
}

extension String {
  fileprivate var trimmed: String { trimmingCharacters(in: .whitespacesAndNewlines) }
}

extension Report {
  /// Adds the figures of one process to those of the rounds before.
  mutating func take(_ recorder: Recorder) {
    for figure in recorder.figures {
      if let place = figures.firstIndex(where: {
        $0.engine == figure.engine && $0.row == figure.row
      }) {
        figures[place].values += figure.values
      } else {
        figures.append(figure)
      }
    }
    // Keep only the last round's curves and percentiles: they are drawn, and not compared.
    latencies.removeAll { old in
      recorder.latencies.contains { $0.engine == old.engine && $0.row == old.row }
    }
    latencies += recorder.latencies
    series.removeAll { old in
      recorder.series.contains { $0.engine == old.engine && $0.chart == old.chart }
    }
    series += recorder.series
  }
}
