import Foundation
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineCommand

/// Row 7 of the table of tests, with few kills; `Scripts/test` runs more of them.
@Suite(.timeLimit(.minutes(10))) struct KillDriveTests {
  let place: Place

  init() throws { place = try Place() }

  private func test(_ options: String...) async throws -> Outcome {
    try await Moraine.run(
      ["crash-test", "kills", "--directory", place.store] + options, input: nil)
  }

  @Test(arguments: [
    ["--durability", "none", "--io", "mapped"], ["--durability", "sync", "--io", "positional"],
  ])
  func driveOutlivesKills(options: [String]) async throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    let outcome = try await Moraine.run(
      [
        "crash-test", "kills", "--directory", place.store, "--kills", "15", "--seed", "\(seed)",
        "--json",
      ]
        + options)
    #expect(outcome.code == 0, "\(outcome.text)")
    let object = try #require(
      try JSONSerialization.jsonObject(with: Data(outcome.output)) as? [String: Any])
    #expect(object["isSound"] as? Bool == true && object["killCount"] as? Int == 15)
    #expect(object["seed"] as? UInt64 == seed && object["failure"] is NSNull)
    // The store is kept for inspection.
    #expect(try await Moraine.run("verify", place.store + "/subject").code == 0)
  }

  @Test func theReportIsReadable() async throws {
    let outcome = try await test("--kills", "2", "--seed", "9")
    #expect(outcome.code == 0 && outcome.text.hasPrefix("2 kills ("), "\(outcome)")
    #expect(outcome.text.hasSuffix("nothing lost, nothing invented\n"))
    #expect(outcome.errors == "seed 9, none, mapped, in \(place.store)\n")
  }

  /// A file that any program creates beside the store is a violation, reported with the way to
  /// repeat it.
  @Test(arguments: [[], ["--json"]])
  func violationExitsWith3AndNamesItsReplay(options: [String]) async throws {
    let folder = place.store + "/subject"
    let command =
      ["crash-test", "kills", "--directory", place.store, "--kills", "1000000", "--seed", "5"]
      + options
    async let running = Moraine.run(command)
    let files = FileManager.default
    // Once the store exists, the harness has already listed the directory.
    while true {
      if files.fileExists(atPath: folder) {
        if !(try files.contentsOfDirectory(atPath: folder)).isEmpty { break }
      }
      try await Task.sleep(for: .milliseconds(5))
    }
    try Data("x".utf8).write(to: URL(fileURLWithPath: place.store + "/leak"))
    let outcome = try await running
    let replay = "moraine crash-test kills --kills 1000000 --seed 5 --durability none --io mapped"
    #expect(outcome.code == 3 && outcome.text.contains(replay), "\(outcome)")
    guard !options.isEmpty else {
      #expect(outcome.text.hasPrefix("VIOLATION after ") && outcome.text.contains("leak"))
      #expect(outcome.errors.hasSuffix("moraine: the store is in \(place.store)\n"))
      return
    }
    let object = try JSONSerialization.jsonObject(with: Data(outcome.output)) as? [String: Any]
    #expect(object?["isSound"] as? Bool == false && object?["failure"] as? String == "wroteOutside")
  }

  @Test func misuseExitsWith2() async throws {
    #expect(try await test("--kills", "-1").code == 2)
    #expect(try await test("--kills", "0").code == 2)
    #expect(try await test("--timeout", "0").code == 2)
    #expect(try await test("--seed", "x").code == 2)
  }

  @Test func aDirectoryThatIsInUseIsMisuse() async throws {
    try FileManager.default.createDirectory(
      atPath: place.store + "/subject", withIntermediateDirectories: true)
    let outcome = try await test("--kills", "1")
    #expect(outcome.code == 2 && outcome.errors.contains("exists already"), "\(outcome)")
  }

  /// Changes the store so that it contradicts the ledger, before the check: a put is undone, or a
  /// put that was never requested is added.
  @Test(arguments: [("forget", "lost"), ("add", "invented"), ("swap", "invented")])
  func storeThatContradictsItsAcknowledgementsIsFound(fault: String, name: String) async throws {
    // Runs in the place of the program: does the damage before each start but the first.
    let script = #"""
      store="$2"; moraine="$0"
      if [ -d "$store" ] && [ -n "$(ls "$store")" ]; then
        key=$("$moraine" scan "$store" --keys-only --limit 1)
        case FAULT in
          forget) [ -z "$key" ] || "$moraine" delete "$store" "$key";;
          add) "$moraine" put "$store" stranger x;;
          swap) [ -z "$key" ] || "$moraine" put "$store" "$key" "12345678 never written";;
        esac
      fi
      exec "$moraine" "$@"
      """#.replacing("FAULT", with: fault)
    var harness = KillHarness(
      executable: "/bin/sh", directory: FilePath(place.store), seed: 1
    ) { folder in
      ["-c", script, Moraine.path, "drive", folder.string, "--durability", "none"]
    }
    harness.timing.startShare = 0
    harness.timing.answers = 50...100
    let failure = await #expect(throws: KillFailure.self) {
      try await harness.run(DriveScript(seed: 1), kills: 5)
    }
    #expect(failure?.cause.name == name, "\(String(describing: failure))")
  }

  @Test func anOperationIsTheSameForTheSameSeed() {
    let operations = DriveOperations(seed: 7)
    for number in 1...2000 as ClosedRange<UInt64> {
      for (key, value) in operations.operation(number).changes {
        guard let value else { continue }
        #expect(operations.contains(key: key, value: value, upTo: number))
        guard value.count > 8 else { continue }
        #expect(!operations.contains(key: key, value: value, upTo: number - 1))
        #expect(!operations.contains(key: key + [0], value: value, upTo: number))
        #expect(!operations.contains(key: key, value: value + [0], upTo: number))
      }
    }
  }
}
