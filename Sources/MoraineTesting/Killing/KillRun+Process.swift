import Subprocess
import SystemPackage

extension KillRun {
  typealias ChildExecution = Execution<CustomWriteInput, SequenceOutput, SequenceOutput>
  typealias ChildLife = MoraineTesting.ChildLife<Ending>

  /// Starts a process, talks with it until it has ended, and removes the files that it may have
  /// left.
  func converse(in ground: GuardedDirectory, _ moment: KillMoment?) async throws -> ChildLife {
    let errors = ErrorTail()
    let timeout = Duration.milliseconds(harness.timeoutMilliseconds)
    let began = ContinuousClock.now
    let result = try await Subprocess.run(
      configuration(in: ground), input: .inputWriter, output: .sequence, error: .sequence
    ) { execution in
      let control = ChildControl(timeout: timeout) { Self.kill(execution) }
      let conversation = KillConversation(
        folder: ground.folder, control: control, writer: execution.standardInputWriter,
        chunks: execution.standardOutput.makeAsyncIterator(), limitBytes: harness.lineLimitBytes)
      return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await control.runPlan() }
        group.addTask { await control.watch() }
        group.addTask { await errors.collect(execution.standardError) }
        let ending = try await talk(conversation, moment)
        let isOverdue = try await end(execution, conversation)
        // Only what the process itself started may still be in its group.
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
      // The group has no process any more.
    }
  }

  /// Waits for the end of a process that has closed its output, or whose output is of no more use.
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
    // Signal 0 does nothing: the step is there for its wait, which ends with the process.
    await execution.teardown(using: [
      .send(signal: Signal(rawValue: 0), allowedDurationToNextStep: timeout)
    ])
    control.finish()
    return control.reason == nil && ContinuousClock.now - began >= timeout
  }
}
