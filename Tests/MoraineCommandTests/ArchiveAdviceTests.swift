import Foundation
import Testing

@testable import MoraineArchive
@testable import MoraineCommand

/// The advice of the commands for archives, also for findings that a run of a command cannot make
/// easily.
@Suite(.timeLimit(.minutes(10))) struct ArchiveAdviceTests {
  let place: Place
  private var archive: String { "file:\(path("archive"))" }

  init() throws { place = try Place() }

  private func path(_ name: String) -> String { place.folder.appendingPathComponent(name).path }

  /// Regression: the code was that of the archive's error, `store`.
  @Test func failureOfTheLocalStoreHasItsOwnCode() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    _ = try await place.talk { talk in
      #expect(try await talk.ask("put 6c 77") == "ok 2")
      let outcome = try await Moraine.run("rejoin", place.store, archive)
      #expect(outcome.code == 4, "\(outcome)")
      #expect(outcome.errors.hasPrefix("moraine: locked: the store is open"), "\(outcome)")
      #expect(try await talk.ask("close") == "ok")
    }
  }

  /// Regression: the advice was to create the root of the store of objects, which is a call of a
  /// program. Commands that create no archive gave it too.
  @Test(arguments: ["missing", "empty", "marked"])
  func adviceForAMissingArchiveIsForUsers(_ kind: String) async throws {
    try await place.drive("put 6b 76")
    let files = FileManager.default
    if kind != "missing" {
      try files.createDirectory(atPath: path("archive"), withIntermediateDirectories: false)
    }
    if kind == "marked" {
      let marker = URL(fileURLWithPath: path("archive/objects.moraine"))
      try Data().write(to: marker)
    }
    let refused = try await Moraine.run("archive", place.store, archive)
    #expect(refused.code == (kind == "marked" ? 2 : 10), "\(refused)")
    #expect(refused.errors.contains("--create"), "\(refused)")
    #expect(!refused.errors.contains("create its root"), "\(refused)")
    for arguments in [
      ["archive-info", archive], ["follow", archive, path("follower"), "--once"],
      ["doctor", place.store, "--archive", archive],
    ] {
      let outcome = try await Moraine.run(arguments)
      let text = outcome.text + outcome.errors
      #expect(text.contains("heck the name"), "\(outcome)")
      #expect(!text.contains("create"), "\(outcome)")
    }
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
  }

  /// Regression: the command made a new follower.
  @Test func rejoinOfAMisspeltPathMakesNoFollower() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let outcome = try await Moraine.run("rejoin", path("stoer"), archive)
    #expect(outcome.code == 2, "\(outcome)")
    #expect(outcome.errors.contains("there is no store at this path"), "\(outcome)")
    #expect(!FileManager.default.fileExists(atPath: path("stoer")))
    let deep = try await Moraine.run("rejoin", path("none/store"), archive)
    #expect(deep.code == 2 && deep.errors.contains("there is no store"), "\(deep)")
  }

  /// What a rejoin leaves that is killed between its two renamings: the path is missing.
  @Test func killedRejoinIsRepeated() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    try FileManager.default.moveItem(atPath: place.store, toPath: place.store + ".branch-1")
    let outcome = try await Moraine.run("rejoin", place.store, archive)
    #expect(outcome.code == 0 && outcome.text.hasPrefix("follows at sequence 1, "), "\(outcome)")
    #expect(try await Moraine.run("get", place.store, "k").text == "v")
  }

  /// Regression: the text named a verification that does not read this list, and calls the archive
  /// sound.
  @Test func unreadableListOfSegmentsIsLookedForInAllStates() throws {
    var report = CleaningReport()
    try ArchiveCleaning.check(report)
    report.damagedContents = try ObjectName("users/obj/1")
    let text = ArchiveCleaning.lines(report, isDryRun: false).joined(separator: "\n")
    #expect(text.contains("the list of segments users/obj/1 cannot be read"), "\(text)")
    #expect(text.contains("moraine archive-verify ARCHIVE --deep"), "\(text)")
    let failure = #expect(throws: Failure.self) { try ArchiveCleaning.check(report) }
    #expect(failure?.code == 3)
  }
}
