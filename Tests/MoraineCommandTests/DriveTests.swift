import Foundation
import Subprocess
import Testing

/// The protocol that other programs rely on.
@Suite(.timeLimit(.minutes(10))) struct DriveTests {
  let place: Place

  init() throws { place = try Place() }

  private func answers(_ commands: String...) async throws -> [String] {
    let input = commands.joined(separator: "\n") + "\n"
    let outcome = try await Moraine.run("drive", place.store, input: input)
    #expect(outcome.code == 0 && outcome.errors.isEmpty, "\(outcome)")
    return outcome.lines.dropLast()
  }

  @Test func everyCommandHasItsAnswer() async throws {
    let seen = try await answers(
      "put 6b 76", "get 6b", "get 6c", "put - -", "get -", "put 6B AbfF", "get 6b", "del 6c",
      "del 6b", "batch 3", "put 61 01", "del 61", "put 62 02", "batch 0", "scan", "sync", "close")
    #expect(
      seen == [
        "ok 1", "value 76", "none", "ok 2", "value -", "ok 3", "value abff", "ok -", "ok 4", "ok 7",
        "ok -", "count 2 \(digest([([], []), ([0x62], [0x02])]))", "ok 7", "ok",
      ])
    let stats = try await answers("stats")
    let json = try #require(stats.first?.dropFirst("stats ".count))
    let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
    #expect(stats[0].hasPrefix("stats {") && object?["count"] as? Int == 2)
  }

  @Test func theHelpNamesEveryCommand() async throws {
    #expect(try await answers("put 6b 76", "compact", "get 6b") == ["ok 1", "ok", "value 76"])
    let refusal = try #require(try await answers("shout").first)
    let beginning = "err usage unknown command; the commands are "
    #expect(refusal.hasPrefix(beginning))
    let commands = refusal.dropFirst(beginning.count).components(separatedBy: ", ")
    #expect(commands.contains("flush") && commands.contains("close"))
    let help = try await Moraine.run("drive", "--help")
    for command in commands {
      #expect(help.lines.contains { $0.hasPrefix("  \(command) ") }, "\(command)")
    }
  }

  @Test func compareAndSetAnswersASequenceNumberOrAConflict() async throws {
    let seen = try await answers(
      "cas 6b 1 76", "cas 6b absent 76", "cas 6b absent 77", "getv 6b", "cas 6b 1 77",
      "cas 6b 1 78", "getv 6b", "getv 6c", "cas 6b x 78", "cas 6b absent", "get 6b", "close")
    let conflict = "err conflict "
    #expect(
      seen.map { $0.hasPrefix(conflict) ? conflict : $0 } == [
        conflict, "ok 1", conflict, "value 1 76", "ok 2", conflict, "value 2 77", "none",
        "err usage cas takes a sequence number or absent", "err usage wrong number of words",
        "value 77", "ok",
      ])
  }

  @Test func entriesExpireByTheClockThatLinesSet() async throws {
    let lines = [
      "clock 1000", "putx 6b 76 2000", "put 6c 77", "clock 1999", "get 6b", "clock 2000", "get 6b",
      "del 6b", "scan", "cas 6b absent 78", "putx 6d 01 2001", "clock 3000", "reap",
      "clock 3602001",
      "reap", "reap", "get 6b", "putx 6b 76", "putx 6b 76 x", "clock 1 2", "close",
    ]
    let outcome = try await Moraine.run(
      "drive", place.store, "--manual-clock", input: lines.joined(separator: "\n") + "\n")
    var answered = Array(outcome.lines.dropLast())
    // The store's own background work may have deleted the entry first.
    let reaped = lines.firstIndex(of: "clock 3602001").map { $0 + 1 } ?? 0
    if answered[reaped] == "ok 0" { answered[reaped] = "ok 1" }
    #expect(
      answered == [
        "ok", "ok 1", "ok 2", "ok", "value 76", "ok", "none", "ok -",
        "count 1 \(digest([([0x6C], [0x77])]))", "ok 3", "ok 4", "ok", "ok 0", "ok", "ok 1", "ok 0",
        "value 78", "err usage wrong number of words", "err usage expected a time in milliseconds",
        "err usage wrong number of words", "ok",
      ])
    #expect(try await answers("clock 1") == ["err usage clock needs --manual-clock"])
  }

  @Test func rangeAnswersTheKeysInTheirOrder() async throws {
    let lines = [
      "put 62 02", "put 61 01", "put 63 -", "batch 2", "put 6162 04", "del 62", "range - -",
      "range 61 62", "range - - reverse 2", "range 6161 - 1", "range 63 61", "range 61 62 x",
      "scan", "close",
    ]
    let outcome = try await Moraine.run(
      "drive", place.store, "--ordered", input: lines.joined(separator: "\n") + "\n")
    #expect(
      Array(outcome.lines.dropLast()) == [
        "ok 1", "ok 2", "ok 3", "ok 5", "count 3", "61 01", "6162 04", "63 -", "count 2", "61 01",
        "6162 04", "count 2", "63 -", "6162 04", "count 1", "6162 04", "count 0",
        "err usage expected range FROM TO [reverse] [LIMIT]",
        "count 3 \(digest([([0x61], [1]), ([0x61, 0x62], [4]), ([0x63], [])]))", "ok",
      ])
    // The order stays in the next run, also without the flag.
    let again = try await answers("range 62 -", "put 60 00", "range - 61")
    #expect(again == ["count 1", "63 -", "ok 6", "count 1", "60 00"])
  }

  @Test func rangeIsRefusedWithoutOrder() async throws {
    let seen = try await answers("put 61 01", "range - -")
    #expect(seen.last?.hasPrefix("err invalidArgument ") == true)
  }

  /// The missing numbers belong to another process.
  @Test func batchAnswersItsOwnSequenceNumberBesideOtherProcesses() async throws {
    let place = place
    _ = try await place.talk("--shared") { (other) async throws in
      _ = try await place.talk("--shared") { (talk) async throws in
        #expect(try await other.ask("put 6b 00") == "ok 1")
        #expect(try await talk.ask("batch 0") == "ok -")
        #expect(try await talk.ask("batch 1\ndel 6c") == "ok -")
        let count = 2_000
        try await other.say(Array(repeating: "put 6b 01", count: count).joined(separator: "\n"))
        var ours: Set<String?> = []
        for _ in 0..<300 { ours.insert(try await talk.ask("batch 2\nput 61 01\nput 62 02")) }
        var theirs: Set<String?> = []
        for _ in 0..<count { theirs.insert(try await other.nextLine()) }
        #expect(ours.count == 300 && theirs.count == count)
        #expect(ours.isDisjoint(with: theirs))
        _ = try await talk.ask("close")
      }
      _ = try await other.ask("close")
    }
  }

  /// Written from the description in `--help`, not from the code.
  private func digest(_ records: [(key: [UInt8], value: [UInt8])]) -> String {
    let sum = records.reduce(UInt64(0)) { sum, record in
      let length = (0..<8).map { UInt8(truncatingIfNeeded: record.key.count >> (8 * $0)) }
      let hash = (length + record.key + record.value).reduce(UInt64(0xCBF2_9CE4_8422_2325)) {
        ($0 ^ UInt64($1)) &* 0x100_0000_01B3
      }
      return sum &+ hash
    }
    return String(format: "%016llx", sum)
  }

  @Test(arguments: [
    "", " ", "put", "put 6b", "put 6b 7", "put 6b 7g", "put 6b 76 76", "put 6b 76\t", "PUT 6b 76",
    "del", "del +1", "get 0x6b", "get é", "batch", "batch -1", "batch +1", "batch 1 2",
    "batch 99999999999999999999", "scan 1", "compact 1", "shout", "close now",
  ])
  func misuseIsAnsweredAndDoesNoHarm(_ line: String) async throws {
    let seen = try await answers(line, "scan")
    #expect(seen.count == 2 && seen[0].hasPrefix("err usage "), "\(seen)")
    #expect(seen.last == "count 0 0000000000000000")
  }

  @Test(arguments: ["put 6", "put 6b 7", "get 6b", "", "batch 2", "del", "close"])
  func aBatchIsAllOrNothing(_ bad: String) async throws {
    let seen = try await answers(
      "batch 5", "put 61 01", bad, "put 62 02", "put 7", "put 63 03", "scan")
    #expect(seen.count == 2 && seen[0].hasPrefix("err usage line 2 of the batch: "), "\(seen)")
    #expect(seen[1] == "count 0 0000000000000000")
  }

  @Test func batchThatTheInputCutsOffIsNotApplied() async throws {
    let seen = try await answers("put 6b 76", "batch 3", "put 61 01", "del 6b")
    #expect(seen.count == 2 && seen[1].hasPrefix("err usage the input ended in a batch"))
    let huge = try await answers("batch 9223372036854775807", "put 61 01")
    #expect(huge.count == 1 && huge[0].hasPrefix("err usage the input ended in a batch"))
    #expect(try await answers("scan")[0].hasPrefix("count 1 "))
  }

  @Test func limitsHaveTheirOwnCode() async throws {
    let long = String(repeating: "61", count: 65_537)
    let seen = try await answers(
      "put \(long) 00", "batch 2", "put 61 00", "put \(long) 00", "get \(long)", "scan")
    #expect(seen[0].hasPrefix("err keyTooLarge ") && seen[1].hasPrefix("err keyTooLarge "))
    #expect(seen[2] == "none" && seen[3].hasPrefix("count 0 "))
  }

  /// The other program may have been killed within the line: the last value is a part of one.
  @Test(arguments: [
    ("", "put 6b 7676"), ("", "putx 6b 76 99999999999999"), ("", "cas 6b 1 7676"), ("", "del 6b"),
    ("batch 2\nput 6b 78\n", "put 6c 7676"), ("batch 2\nput 6b 78\n", "del 6b"),
  ])
  func lineThatTheInputCutsOffWritesNothing(_ before: String, _ last: String) async throws {
    try await place.drive("put 6b 76")
    let cut = try await Moraine.run("drive", place.store, input: before + last)
    #expect(cut.code == 0 && cut.lines.count == 2, "\(cut)")
    #expect(cut.text.hasPrefix("err usage "), "\(cut)")
    #expect(cut.text.contains("the input ended within a line"), "\(cut)")
    #expect(try await answers("getv 6b", "get 6c", "scan").prefix(2) == ["value 1 76", "none"])
    let whole = try await Moraine.run("drive", place.store, input: before + last + "\n")
    #expect(whole.text.hasPrefix("ok "), "\(whole)")
  }

  /// Regression: the sum of all advances passed the end of its range.
  @Test func clockLinesTakeEachTime() async throws {
    let outcome = try await Moraine.run(
      "drive", place.store, "--manual-clock",
      input: "clock 18446744073709551615\nclock 0\nclock 1\nput 6b 76\nget 6b\n")
    #expect(outcome.text == "ok\nok\nok\nok 1\nvalue 76\n", "\(outcome)")
  }

  @Test func windowsLinesAndALastLineWithoutAnEndAreAccepted() async throws {
    let outcome = try await Moraine.run("drive", place.store, input: "put 6b 76\r\nget 6b")
    #expect(outcome.text == "ok 1\nvalue 76\n")
  }

  /// Each answer arrives before the next command is sent, and the end of the input closes the
  /// store.
  @Test func answersAreNotBuffered() async throws {
    let (_, status) = try await place.talk("--durability", "sync", "--io", "positional") {
      (talk) async throws in
      for index in 1...20 { #expect(try await talk.ask("put 6b 76") == "ok \(index)") }
      #expect(try await talk.ask("sync") == "ok 20")
    }
    #expect(status == .exited(0))
    #expect(try await Moraine.run("stats", place.store).text.contains("closed    in order"))
  }

  @Test func acknowledgedWriteSurvivesAKill() async throws {
    let (_, status) = try await place.talk("--durability", "none") { (talk) async throws in
      #expect(try await talk.ask("put 6b 76") == "ok 1")
      try talk.kill()
    }
    #expect(status == .signaled(SIGKILL))
    #expect(try await answers("get 6b", "put 6b 77") == ["value 76", "ok 2"])
  }

  /// The reader of the answers has ended: `drive` prints nothing, and closes the store in order.
  @Test func driveEndsWhenItsReaderIsGone() async throws {
    let script = #"""
      yes "put 6b 76" | head -n 200000 |
        { "$0" drive "$1" --durability none; echo "code $?" >&2; } | head -n 1
      """#
    let outcome = try await Moraine.shell(script, place.store)
    #expect(outcome.text == "ok 1\n" && outcome.errors == "code 0\n")
    #expect(try await Moraine.run("stats", place.store).text.contains("closed    in order"))
  }

  /// A value of a megabyte crosses several reads and writes.
  @Test func longLineIsReadWhole() async throws {
    let value = String(repeating: "00017f80feff", count: 170_000)
    #expect(try await answers("put 6b \(value)", "get 6b") == ["ok 1", "value \(value)"])
  }
}
