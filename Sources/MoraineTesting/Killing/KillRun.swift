import Foundation
import Subprocess
import SystemPackage

/// One run of a harness: process after process on the same folder.
final class KillRun<Script: KillScript> {
  typealias Command = KillCommand<Script.Operation>

  /// How the conversation with one process ended.
  enum Ending {
    /// It closed its output: killed, or by itself.
    case outputEnded
    case violation(KillFailure.Cause)
  }

  let harness: KillHarness
  var script: Script
  var ledger: AcknowledgementLedger<Script.Model>
  /// Draws the commands. It is separate from the generator of the kills: the number of commands
  /// depends on the machine, and must not change the moments of later kills.
  var commandGenerator: SeededGenerator
  var report: KillReport
  /// Sent and not answered by the process that runs now.
  var unanswered: [Command] = []
  /// The script found the state of the folder right since the last process ended.
  var isSettled = false
  /// The process that runs now was asked to close.
  var isClosing = false
  /// The kill has been decided on for the process that runs now.
  var isPlanned = false
  /// How many commands may wait for their answers in the process that runs now.
  private(set) var pipelinedCount = 1
  private var momentGenerator: SeededGenerator
  private let began = ContinuousClock.now
  /// Processes in a row that had closed before their kill came.
  private var orderlyEnds = 0

  init(_ harness: KillHarness, _ script: Script) {
    self.harness = harness
    self.script = script
    ledger = AcknowledgementLedger(script.model)
    momentGenerator = SeededGenerator(seed: harness.seed)
    commandGenerator = SeededGenerator(seed: ~harness.seed)
    report = KillReport(seed: harness.seed)
  }

  func run(
    kills: Int, progress: (KillReport) -> Void
  ) async throws(KillFailure) -> KillReport {
    let ground: GuardedDirectory
    do { ground = try GuardedDirectory(at: harness.directory) } catch {
      throw failure(.notStarted("cannot prepare \(harness.directory): \(error)"))
    }
    while report.killCount < kills {
      // A program that is always faster than the kill would never be killed.
      let canClose = script.closingLines != nil && orderlyEnds < 3
      let moment = KillMoment(harness.timing, canClose: canClose, using: &momentGenerator)
      try await live(in: ground, moment)
      progress(report)
    }
    try await live(in: ground, nil)
    return report
  }

  /// Runs a process to its end, and judges it.
  ///
  /// - Parameter moment: nil for an orderly end.
  private func live(in ground: GuardedDirectory, _ moment: KillMoment?) async throws(KillFailure) {
    unanswered = []
    (isSettled, isClosing, isPlanned) = (false, false, false)
    pipelinedCount = .random(in: harness.timing.pipelinedCommands, using: &momentGenerator)
    if let cause = await inspect(ground.folder) { throw failure(cause) }
    let life: ChildLife
    do { life = try await converse(in: ground, moment) } catch {
      throw failure(Task.isCancelled ? .cancelled : .notStarted("\(error)"))
    }
    count(life, isLast: moment == nil)
    if Task.isCancelled { throw failure(.cancelled) }
    if let cause = verdict(life) ?? trespass(on: ground) { throw failure(cause, life.errorOutput) }
  }

  private func trespass(on ground: GuardedDirectory) -> KillFailure.Cause? {
    do {
      let changes = try ground.changes()
      return changes.isEmpty ? nil : .wroteOutside(changes)
    } catch {
      return .wroteOutside(["\(ground.path) cannot be listed any more: \(error)"])
    }
  }

  private func inspect(_ folder: FilePath) async -> KillFailure.Cause? {
    do {
      if let finding = try await script.inspect(folder, ledger) { settle(finding) }
      return nil
    } catch {
      return KillFailure.Cause(checkError: error)
    }
  }

  func settle(_ finding: KillFinding<Script.Model>) {
    ledger.settle(finding)
    isSettled = true
  }

  private func count(_ life: ChildLife, isLast: Bool) {
    if !life.isKilled {
      report.orderlyEndCount += 1
    } else if !isLast {
      report.killCount += 1
      if !isSettled { report.earlyKillCount += 1 }
    }
    orderlyEnds = life.isKilled ? 0 : orderlyEnds + 1
    if let restart = life.restart { report.restarts.append(Int(restart / .microseconds(1))) }
    report.acknowledgedCount = ledger.acknowledgedCount
    report.survivedCount = ledger.survivedCount
    report.vanishedCount = ledger.vanishedCount
    report.elapsedMilliseconds = Int((ContinuousClock.now - began) / .milliseconds(1))
  }

  /// What was wrong with the process, if anything.
  private func verdict(_ life: ChildLife) -> KillFailure.Cause? {
    // A trap explains more than the nonsense that may have come before it.
    if case .signaled(let signal) = life.status, signal != SIGKILL || life.killReason == nil,
      !life.isOverdue
    {
      return .trapped(signal: signal)
    }
    if case .violation(let cause) = life.ending { return cause }
    if life.killReason == .hung || life.isOverdue {
      return .hung(milliseconds: harness.timeoutMilliseconds)
    }
    if case .exited(let code) = life.status, code != 0 || !isClosing { return .exited(code: code) }
    return nil
  }

  private func failure(_ cause: KillFailure.Cause, _ errorOutput: String = "") -> KillFailure {
    let words =
      [harness.executable.string]
      + harness.arguments(GuardedDirectory.folder(in: harness.directory))
    return KillFailure(
      cause: cause, seed: harness.seed, killCount: report.killCount,
      replayCommand: harness.replayCommand
        ?? "KillHarness with seed \(harness.seed) on \(words.joined(separator: " "))",
      errorOutput: errorOutput, report: report)
  }
}

extension KillFailure.Cause {
  /// For what a script's check throws.
  init(checkError error: any Error) {
    if let violation = error as? KillViolation {
      self.init(violation)
    } else {
      self = .protocolError("the check failed: \(error)")
    }
  }
}
