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

  /// - Returns: what is wrong.
  private func check(_ program: KillConversation) async throws -> KillFailure.Cause? {
    do {
      if let finding = try await script.check(program, ledger) { settle(finding) }
    } catch let error as KillConversation.Ended {
      throw error
    } catch {
      // Found on whole lines only, so a kill in between is no excuse.
      return KillFailure.Cause(checkError: error)
    }
    guard !isSettled else { return nil }
    return .protocolError("neither inspect nor check came to a finding")
  }

  /// No more lines are wanted from the process, or there are none.
  private func silence(_ program: KillConversation) async throws -> Ending {
    guard program.hasOverlongLine else { return .outputEnded }
    let limit = harness.lineLimitBytes
    return violation(.protocolError("a line of more than \(limit) bytes"), program)
  }

  private func violation(_ cause: KillFailure.Cause, _ program: KillConversation) -> Ending {
    program.control.kill(.violation)
    return .violation(cause)
  }

  /// Sends commands and takes answers until there are no more.
  private func work(_ program: KillConversation, _ moment: KillMoment?) async throws -> Ending {
    var answers = 0
    while true {
      try await proceed(program, moment, answers)
      guard let line = try await program.nextLine() else { return try await silence(program) }
      let answer = script.meaning(of: line, to: unanswered.first, ledger)
      if case .ignored = answer { continue }
      if let cause = take(answer, line) { return violation(cause, program) }
      program.control.touch()
      answers += 1
    }
  }

  /// - Returns: what is wrong.
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

  /// Sends what is to be sent after so many answers, and plans the kill when its time has come.
  private func proceed(
    _ program: KillConversation, _ moment: KillMoment?, _ answers: Int
  ) async throws {
    switch moment {
    case nil: return try await close(program, pause: nil)
    case .closing(let count, let pause) where answers >= count:
      return try await close(program, pause: pause)
    default: break
    }
    // In bursts, so that the program has always some to do while the harness reads its answers.
    guard unanswered.count <= pipelinedCount / 2 else { return }
    await sendBurst(program)
    // Now the program is in the midst of it.
    guard case .answers(let count, let pause) = moment, answers >= count, !isPlanned else { return }
    isPlanned = true
    program.control.kill(afterMicroseconds: pause)
  }

  private func sendBurst(_ program: KillConversation) async {
    var lines: [String] = []
    while unanswered.count < pipelinedCount,
      let command = script.nextCommand(using: &commandGenerator)
    {
      unanswered.append(command)
      if let operation = command.operation { ledger.send(operation) }
      lines += command.lines
    }
    if !lines.isEmpty { await program.say(lines) }
  }

  /// Asks for an orderly end, once everything is answered.
  ///
  /// - Parameter pause: from then to the kill; nil for none.
  private func close(_ program: KillConversation, pause: Int?) async throws {
    guard unanswered.isEmpty, !isClosing else { return }
    guard let lines = script.closingLines else { return program.control.kill(.planned) }
    isClosing = true
    if lines.isEmpty {
      try await program.finish()
    } else {
      unanswered.append(KillCommand(lines: lines))
      await program.say(lines)
    }
    if let pause { program.control.kill(afterMicroseconds: pause) }
  }
}
