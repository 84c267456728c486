import Foundation
import MoraineTesting
import SystemPackage
import Testing

/// A harness that finds nothing is worth nothing: each of these programs has one bug.
@Suite(.timeLimit(.minutes(10))) struct KillHarnessTests {
  @Test func aSoundProgramPasses() async throws {
    let report = try await Subject.good.run(kills: 20)
    #expect(report.killCount == 20 && report.acknowledgedCount > 0, "\(report)")
    #expect(report.orderlyEndCount > 0 && report.medianRestartMicroseconds > 0, "\(report)")
  }

  @Test func storedButUnacknowledgedOperationsMaySurvive() async throws {
    let add = #"echo $number >> "$1/log"; sleep 0.05; echo ok"#
    let report = try await Subject(add: add).run(kills: 10) { $0.timing.answers = 0...2 }
    #expect(report.survivedCount > 0 && report.vanishedCount > 0, "\(report)")
  }

  /// Only the later of two operations in flight survives.
  @Test func aHoleIsFound() async throws {
    let add = #"""
      if [ $((count % 2)) = 1 ]; then held=$number; continue; fi
      echo $number >> "$1/log"; sleep 0.05; echo $held >> "$1/log"; echo ok; echo ok
      """#
    let failure = try await Subject(add: add).failure {
      $0.timing.pipelinedCommands = 2...2
      $0.timing.startShare = 0
      $0.timing.answers = 0...0
    }
    guard case .invented = failure.cause else {
      Issue.record("\(failure)")
      return
    }
  }

  /// Regression: the harness wrote all commands of a group before it read an answer. The answers
  /// filled their pipe, the program read no more commands, and the harness called this a hang.
  @Test func longAnswersToPipelinedCommandsAreNoHang() async throws {
    let text = #"""
      : >> "$1/log"
      while read -r number rest; do
        echo "$number" >> "$1/log"; echo "$number $rest"
      done
      """#
    let report = try await Subject.run(text, LongLineScript(), kills: 3, seed: 1) { harness in
      harness.timeoutMilliseconds = 20_000
      harness.timing.startShare = 0
      harness.timing.answers = 1...20
      harness.timing.pipelinedCommands = 64...64
    }
    #expect(report.killCount == 3 && report.acknowledgedCount > 0, "\(report)")
  }

  @Test func programThatWorksWithoutInputPasses() async throws {
    let text = #"""
      : >> "$1/log"; number=$(($(wc -l < "$1/log")))
      while :; do number=$((number + 1)); echo $number >> "$1/log"; echo $number; done
      """#
    let report = try await Subject.run(text, ListeningScript(), kills: 10, seed: 1)
    #expect(report.killCount == 10 && report.acknowledgedCount > 0, "\(report)")
  }

  @Test func lossInAProgramThatWorksWithoutInputIsFound() async throws {
    let text = #"""
      : >> "$1/log"; number=$(($(wc -l < "$1/log")))
      while :; do
        number=$((number + 1)); echo $number; kept="$kept $number"
        if [ $((number % 7)) = 0 ]; then printf '%s\n' $kept >> "$1/log"; kept=; fi
      done
      """#
    let failure = await #expect(throws: KillFailure.self) {
      try await Subject.run(text, ListeningScript(), kills: 50, seed: 1)
    }
    guard case .lost = failure?.cause else {
      Issue.record("\(String(describing: failure))")
      return
    }
  }

  /// A program may refuse an operation, which stores nothing.
  @Test func aRefusalIsNoLoss() async throws {
    let add =
      #"if [ $((number % 3)) = 0 ]; then echo no; else echo $number >> "$1/log"; echo ok; fi"#
    let report = try await Subject(add: add).run()
    #expect(report.acknowledgedCount > 0)
  }

  @Test func acknowledgingBeforeStoringIsFound() async throws {
    let add = #"""
      echo ok; kept="$kept $number"
      if [ $((count % 5)) = 0 ]; then printf '%s\n' $kept >> "$1/log"; kept=; fi
      """#
    let failure = try await Subject(add: add).failure(kills: 50)
    guard case .lost = failure.cause else {
      Issue.record("\(failure)")
      return
    }
    #expect(failure.replayCommand.contains("seed 1"))
    #expect("\(failure)".contains("replay: ") && "\(failure)".contains("seed 1"))
  }

  @Test func aLossOnClosingIsFound() async throws {
    let failure = try await Subject(add: Subject.good.add, end: #": > "$1/log""#).failure(kills: 50)
    guard case .lost = failure.cause else {
      Issue.record("\(failure)")
      return
    }
  }

  @Test(arguments: [
    // A number that was never written; half of the numbers that recovery redoes; the same number
    // twice.
    #"echo 1000000 >> "$1/log""#,
    #"[ ! -s "$1/log" ] || tail -n 1 "$1/log" >> "$1/log""#,
  ])
  func anInventionIsFound(start: String) async throws {
    let failure = try await Subject(start: start, add: Subject.good.add).failure()
    guard case .invented = failure.cause else {
      Issue.record("\(failure)")
      return
    }
  }

  @Test func aTrapIsFound() async throws {
    let failure = try await Subject(
      start: "echo so it goes >&2", add: "kill -ABRT $$"
    ).failure()
    #expect(failure.cause == .trapped(signal: SIGABRT))
    #expect(failure.errorOutput == "so it goes\n")
  }

  @Test func killByAnotherProcessIsFound() async throws {
    let failure = try await Subject(add: "kill -KILL $$").failure()
    #expect(failure.cause == .trapped(signal: SIGKILL))
  }

  @Test(arguments: [0, 3])
  func anEarlyEndIsFound(code: Int32) async throws {
    let failure = try await Subject(add: "exit \(code)").failure()
    #expect(failure.cause == .exited(code: code))
  }

  @Test func aFailureOnClosingIsFound() async throws {
    let failure = try await Subject(add: Subject.good.add, end: "exit 7").failure()
    #expect(failure.cause == .exited(code: 7))
  }

  /// Silent, noisy, stopped, not reacting to the end of its input, with its output closed, with a
  /// child of its own that holds the pipes.
  @Test(arguments: [
    Subject(add: "exec sleep 1000"),
    Subject(add: "while :; do echo '#'; sleep 0.01; done"),
    Subject(add: "kill -STOP $$"),
    Subject(add: Subject.good.add, end: "sleep 1000; :"),
    Subject(add: "exec >&-; sleep 1000; :"),
    Subject(start: "sleep 1000; :", add: ":"),
    Subject(start: "sleep 1000 &", add: ":"),
  ])
  func aHangIsFoundAndEnded(subject: Subject) async throws {
    let began = ContinuousClock.now
    let failure = try await subject.failure { harness in
      harness.timeoutMilliseconds = 300
      harness.timing.startShare = 0
      harness.timing.answers = 1...2
    }
    #expect(failure.cause == .hung(milliseconds: 300))
    // A hanging program hangs for a thousand seconds; a busy machine needs time to end it.
    #expect(ContinuousClock.now - began < .seconds(500))
  }

  @Test func nonsenseIsFound() async throws {
    #expect(try await Subject(add: "echo what").failure().cause == .protocolError("what"))
    let unasked = try await Subject(add: Subject.good.add, end: "echo ok; sleep 1").failure {
      $0.timing.closingShare = 1
      $0.timing.startShare = 0
      $0.timing.closingMicroseconds = 1_000_000...1_000_000
    }
    #expect(unasked.cause == .protocolError("an answer to nothing: ok"))
  }

  @Test func aLineWithoutAnEndIsFound() async throws {
    let failure = try await Subject(add: "exec tr '\\0' x < /dev/zero").failure {
      $0.lineLimitBytes = 100_000
      $0.timing.startShare = 0
      $0.timing.answers = 1...1
    }
    #expect(failure.cause == .protocolError("a line of more than 100000 bytes"))
  }

  @Test(arguments: [
    (#"echo x > "$1/../leak""#, "leak"), ("echo x > leak", "leak"),
    (#"echo x >> "$1/../sentinel""#, "sentinel"), ("rm sentinel", "sentinel"),
    (#"mv "$1" "$1.old"; cp -r "$1.old" "$1""#, "subject"),
  ])
  func writingOutsideTheFolderIsFound(line: String, name: String) async throws {
    let failure = try await Subject(start: line, add: Subject.good.add).failure()
    guard case .wroteOutside(let names) = failure.cause, names.contains(name) else {
      Issue.record("\(failure)")
      return
    }
  }

  @Test func scriptThatChecksNothingFails() async throws {
    struct Blind: KillScript {
      let model = Numbers()
      mutating func meaning(
        of line: String, to command: KillCommand<Int>?, _ ledger: AcknowledgementLedger<Numbers>
      ) -> KillAnswer<Int> { .ignored }
    }
    let failure = await #expect(throws: KillFailure.self) {
      try await Subject.run("sleep 1000", Blind(), kills: 1, seed: 1)
    }
    #expect(failure?.cause == .protocolError("neither inspect nor check came to a finding"))
  }

  @Test func missingProgramIsReported() async throws {
    let failure = try await Subject.good.failure { $0.executable = "/nowhere/program" }
    guard case .notStarted = failure.cause else {
      Issue.record("\(failure)")
      return
    }
  }

  /// No ledger would match its state.
  @Test func existingFolderIsNotUsed() async throws {
    let failure = try await Subject.good.failure { harness in
      let folder = harness.directory.appending("subject").string
      do {
        try FileManager.default.createDirectory(
          atPath: folder, withIntermediateDirectories: true)
      } catch { Issue.record(error) }
    }
    guard case .notStarted = failure.cause else {
      Issue.record("\(failure)")
      return
    }
  }

  @Test func cancellingEndsTheRunAndTheProcess() async throws {
    let name = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-process-\(UUID().uuidString)").path
    let work = "echo $$ > '\(name).new'; mv '\(name).new' '\(name)'; exec sleep 1000"
    let task = Task {
      try await Subject(add: work).failure { harness in
        harness.timing.startShare = 0
        harness.timing.answers = 1...1
        harness.timeoutMilliseconds = 100_000
      }
    }
    while !FileManager.default.fileExists(atPath: name) {
      try await Task.sleep(for: .milliseconds(5))
    }
    let text = try String(contentsOfFile: name, encoding: .utf8)
    try FileManager.default.removeItem(atPath: name)
    let process = try #require(Int32(text.filter(\.isNumber)))
    #expect(kill(process, 0) == 0, "it runs")
    task.cancel()
    #expect(try await task.value.cause == .cancelled)
    #expect(kill(process, 0) == -1 && errno == ESRCH, "the process has ended")
  }
}
