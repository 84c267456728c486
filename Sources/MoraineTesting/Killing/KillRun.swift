#if Command
  import Foundation
  import Subprocess
  import SystemPackage

  /// A run of a harness: one process after the other on the same folder.
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
    /// Whether the kill of the running process is decided.
    var isPlanned = false
    /// Number of commands that may wait for their answers in the running process.
    private(set) var pipelinedCount = 1
    private var momentGenerator: SeededGenerator
    private let began = ContinuousClock.now
    /// Number of consecutive processes that closed before their kill.
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
      kills: Int, onProgress: (KillReport) -> Void
    ) async throws(KillFailure) -> KillReport {
      let ground: GuardedDirectory
      do { ground = try GuardedDirectory(at: harness.directory) } catch {
        throw failure(.notStarted("cannot prepare \(harness.directory): \(error)"))
      }
      while report.killCount < kills {
        // Otherwise a program that is always faster than the kill would never be killed.
        let canClose = script.closingLines != nil && orderlyEnds < 3
        let moment = KillMoment(harness.timing, canClose: canClose, using: &momentGenerator)
        try await live(in: ground, moment)
        onProgress(report)
      }
      try await live(in: ground, nil)
      return report
    }

    /// Runs a process to its end, and judges it.
    ///
    /// - Parameter moment: nil for a process that ends in order.
    private func live(in ground: GuardedDirectory, _ moment: KillMoment?) async throws(KillFailure)
    {
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
      if let cause = verdict(life) ?? trespass(on: ground) {
        throw failure(cause, life.errorOutput)
      }
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

    /// Returns the failure of the process; nil when there is none.
    private func verdict(_ life: ChildLife) -> KillFailure.Cause? {
      // A trap explains more than the invalid output that may have come before it.
      if case .signaled(let signal) = life.status, signal != SIGKILL || life.killReason == nil,
        !life.isOverdue
      {
        return .trapped(signal: signal)
      }
      if case .violation(let cause) = life.ending { return cause }
      if life.killReason == .hung || life.isOverdue {
        return .hung(milliseconds: harness.timeoutMilliseconds)
      }
      if case .exited(let code) = life.status, code != 0 || !isClosing {
        return .exited(code: code)
      }
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
    /// Returns the failure for an error that a script's check throws.
    init(checkError error: any Error) {
      if let violation = error as? KillViolation {
        self.init(violation)
      } else {
        self = .protocolError("the check failed: \(error)")
      }
    }
  }

  extension KillRun {
    typealias ChildExecution = Execution<CustomWriteInput, SequenceOutput, SequenceOutput>
    typealias ChildLife = MoraineTesting.ChildLife<Ending>

    /// Starts a process, exchanges lines with it until it has ended, and kills processes that it
    /// started.
    func converse(in ground: GuardedDirectory, _ moment: KillMoment?) async throws -> ChildLife {
      let errors = ErrorTail()
      let timeout = Duration.milliseconds(harness.timeoutMilliseconds)
      let began = ContinuousClock.now
      let result = try await Subprocess.run(
        configuration(in: ground), input: .inputWriter, output: .sequence, error: .sequence
      ) { execution in
        let control = ChildControl(timeout: timeout) { Self.kill(execution) }
        let input = InputQueue(execution.standardInputWriter, control)
        let conversation = KillConversation(
          folder: ground.folder, control: control, input: input,
          chunks: execution.standardOutput.makeAsyncIterator(), limitBytes: harness.lineLimitBytes)
        return try await withThrowingTaskGroup(of: Void.self) { group in
          group.addTask { await control.runPlan() }
          group.addTask { await control.watch() }
          group.addTask { await input.write() }
          group.addTask { await errors.collect(execution.standardError) }
          let ending = try await talk(conversation, moment)
          let isOverdue = try await end(execution, conversation)
          // Only processes that the process itself started may still belong to its group.
          Self.kill(execution)
          group.cancelAll()
          return (ending, control.reason, isOverdue, conversation.firstLine)
        }
      }
      let (ending, reason, isOverdue, firstLine) = result.closureResult
      return ChildLife(
        ending: ending, status: result.terminationStatus, killReason: reason, isOverdue: isOverdue,
        restart: firstLine.map { $0 - began }, errorOutput: errors.text)
    }

    private func configuration(in ground: GuardedDirectory) -> Subprocess.Configuration {
      var options = PlatformOptions()
      options.processGroupID = 0
      options.teardownSequence = [
        .send(signal: .kill, toProcessGroup: true, allowedDurationToNextStep: .zero)
      ]
      var environment = Environment.inherit
      for (name, value) in harness.environment {
        environment = environment.updating([Environment.Key(stringLiteral: name): value])
      }
      return Configuration(
        executable: .path(harness.executable.absolute),
        arguments: Arguments(harness.arguments(ground.folder)),
        environment: environment, workingDirectory: ground.path, platformOptions: options)
    }

    private static func kill(_ execution: ChildExecution) {
      do { try execution.send(signal: .kill, toProcessGroup: true) } catch {
        // The group has no more processes.
      }
    }

    /// Waits for the end of a process that has closed its output, or whose output is no longer
    /// needed.
    ///
    /// - Returns: whether it had to be killed because it did not end.
    private func end(
      _ execution: ChildExecution, _ conversation: KillConversation
    ) async throws -> Bool {
      let control = conversation.control
      try await conversation.finish()
      let began = ContinuousClock.now
      let timeout = Duration.milliseconds(harness.timeoutMilliseconds)
      control.touch()
      // Signal 0 has no effect: this step exists for its wait, which ends with the process.
      await execution.teardown(using: [
        .send(signal: Signal(rawValue: 0), allowedDurationToNextStep: timeout)
      ])
      control.finish()
      return control.reason == nil && ContinuousClock.now - began >= timeout
    }
  }

  extension KillRun {
    /// Checks a process that has just started, then keeps it busy until its output ends.
    func talk(_ program: KillConversation, _ moment: KillMoment?) async throws -> Ending {
      do {
        if case .start(let pause) = moment { program.control.kill(afterMicroseconds: pause) }
        let cause = try await check(program)
        if let cause { return violation(cause, program) }
        if !isSettled { return try await silence(program) }
        return try await work(program, moment)
      } catch is KillConversation.Ended {
        return try await silence(program)
      }
    }

    /// - Returns: the violation; nil for none.
    private func check(_ program: KillConversation) async throws -> KillFailure.Cause? {
      do {
        if let finding = try await script.check(program, ledger) { settle(finding) }
      } catch let error as KillConversation.Ended {
        throw error
      } catch {
        // Only complete lines are judged, so a kill at the same time does not excuse the violation.
        return KillFailure.Cause(checkError: error)
      }
      guard !isSettled else { return nil }
      return .protocolError("neither inspect nor check came to a finding")
    }

    /// Ends the reading: the process sends no more lines, or no more lines are needed.
    private func silence(_ program: KillConversation) async throws -> Ending {
      guard program.hasOverlongLine else { return .outputEnded }
      let limit = harness.lineLimitBytes
      return violation(.protocolError("a line of more than \(limit) bytes"), program)
    }

    private func violation(_ cause: KillFailure.Cause, _ program: KillConversation) -> Ending {
      program.control.kill(.violation)
      return .violation(cause)
    }

    /// Sends commands and receives answers until there are no more.
    private func work(_ program: KillConversation, _ moment: KillMoment?) async throws -> Ending {
      var answers = 0
      while true {
        try await proceed(program, moment, answers)
        guard let line = try await program.readLine() else { return try await silence(program) }
        let answer = script.meaning(of: line, to: unanswered.first, ledger)
        if case .ignored = answer { continue }
        if let cause = take(answer, line) { return violation(cause, program) }
        program.control.touch()
        answers += 1
      }
    }

    /// - Returns: the violation; nil for none.
    private func take(
      _ answer: KillAnswer<Script.Operation>, _ line: String
    ) -> KillFailure.Cause? {
      switch answer {
      case .ignored: return nil
      case .wrong(let violation): return KillFailure.Cause(violation)
      case .acknowledgedByItself(let operation): ledger.acknowledge(operation)
      case .acknowledged, .refused:
        guard !unanswered.isEmpty else {
          return .protocolError("an answer to nothing: \(line.prefix(200))")
        }
        guard unanswered.removeFirst().operation != nil else { return nil }
        if case .refused = answer { ledger.refuse() } else { ledger.acknowledge() }
      }
      return nil
    }

    /// Sends the commands that follow the given number of answers, and plans the kill when its time
    /// has come.
    private func proceed(
      _ program: KillConversation, _ moment: KillMoment?, _ answers: Int
    ) async throws {
      switch moment {
      case nil: return try await close(program, pause: nil)
      case .closing(let count, let pause) where answers >= count:
        return try await close(program, pause: pause)
      default: break
      }
      // Commands are sent in groups, so that the program always has some to perform while the
      // harness reads its answers.
      guard unanswered.count <= pipelinedCount / 2 else { return }
      let lines = nextBurst()
      guard case .answers(let count, let pause) = moment, answers >= count, !isPlanned else {
        if !lines.isEmpty { program.say(lines) }
        return
      }
      isPlanned = true
      // The kill comes while the program performs commands.
      program.say(lines, killAfterMicroseconds: pause)
    }

    /// Returns the lines of the next commands, as many as may wait for their answers.
    private func nextBurst() -> [String] {
      var lines: [String] = []
      while unanswered.count < pipelinedCount,
        let command = script.nextCommand(using: &commandGenerator)
      {
        unanswered.append(command)
        if let operation = command.operation { ledger.send(operation) }
        lines += command.lines
      }
      return lines
    }

    /// Asks for an orderly end, after all commands are answered.
    ///
    /// - Parameter pause: time from the request to the kill; nil for no kill.
    private func close(_ program: KillConversation, pause: Int?) async throws {
      guard unanswered.isEmpty, !isClosing else { return }
      guard let lines = script.closingLines else { return program.control.kill(.planned) }
      isClosing = true
      if lines.isEmpty {
        try await program.finish()
        if let pause { program.control.kill(afterMicroseconds: pause) }
      } else {
        unanswered.append(KillCommand(lines: lines))
        program.say(lines, killAfterMicroseconds: pause)
      }
    }
  }
#endif
