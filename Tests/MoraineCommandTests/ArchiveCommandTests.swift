import Foundation
import Testing

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// The commands for archives, as their users run them.
@Suite(.timeLimit(.minutes(10))) struct ArchiveCommandTests {
  let place: Place
  private var folder: String { place.folder.appendingPathComponent("archive").path }
  private var archive: String { "file:\(folder)" }

  init() throws { place = try Place() }

  private func restored(_ name: String) -> String {
    place.folder.appendingPathComponent(name).path
  }

  @Test func storeIsArchivedAndRestoredAtEachMoment() async throws {
    try await place.drive("put 6b 76", "put 6c 77")
    let made = try await Moraine.run("archive", place.store, archive, "--create")
    #expect(made.code == 0 && made.text.hasPrefix("archived to sequence 2: "), "\(made)")
    let first = try await Moraine.run("archive-info", archive, "--json")
    let info = try JSONSerialization.jsonObject(with: Data(first.output)) as? [String: Any]
    #expect(info?["sequence"] as? Int == 2, "\(first)")
    let position = try #require(info?["position"] as? Int)
    try await place.drive("put 6b 78", "del 6c")
    let again = try await Moraine.run("archive", place.store, archive, "--checkpoint", "--json")
    let status = try JSONSerialization.jsonObject(with: Data(again.output)) as? [String: Any]
    #expect(again.code == 0 && status?["sequence"] as? Int == 4, "\(again)")
    #expect(status?["term"] as? Int == 2 && status?["checkpoint"] as? Int == 2, "\(again)")
    let sound = try await Moraine.run("archive-verify", archive)
    #expect(sound.code == 0 && sound.text.hasPrefix("sound to sequence 4: "), "\(sound)")

    #expect(try await Moraine.run("restore", archive, restored("latest")).code == 0)
    #expect(try await Moraine.run("get", restored("latest"), "k").text == "x")
    #expect(try await Moraine.run("get", restored("latest"), "l").code == 1)
    let older = try await Moraine.run(
      "restore", archive, restored("older"), "--position", "\(position)")
    #expect(older.code == 0, "\(older)")
    #expect(try await Moraine.run("get", restored("older"), "l").text == "w")
    let between = try await Moraine.run("restore", archive, restored("three"), "--through", "3")
    #expect(between.code == 0 && between.text.hasPrefix("restored to sequence 3: "), "\(between)")
    #expect(try await Moraine.run("get", restored("three"), "k").text == "x")
    #expect(try await Moraine.run("get", restored("three"), "l").text == "w")
    let now = try await Moraine.run(
      "restore", archive, restored("now"), "--at", "2999-01-01T00:00:00Z")
    #expect(now.code == 0, "\(now)")
    #expect(try await Moraine.run("get", restored("now"), "k").text == "x")
  }

  /// What doctor says of a store and its archive: complete, behind the store, ahead of it, of
  /// another store, missing.
  @Test func doctorComparesAStoreWithItsArchive() async throws {
    func doctor(_ store: String, _ archive: String, code: Int32) async throws -> String {
      let outcome = try await Moraine.run("doctor", store, "--archive", archive)
      #expect(outcome.code == code, "\(outcome)")
      return outcome.text
    }
    try await place.drive("put 6b 76", "put 6c 77")
    #expect(try await doctor(place.store, archive, code: 10).contains("could not be read"))
    _ = try await Moraine.run("archive", place.store, archive, "--create")
    let complete = try await doctor(place.store, archive, code: 0)
    #expect(complete.contains("up to sequence 2, ") && complete.contains("; so has the store."))
    #expect(complete.contains("Nothing to do."), "\(complete)")
    let older = restored("older")
    _ = try await Moraine.run("restore", archive, older)
    try await place.drive("put 6b 78", "del 6c", "put 6d 79")
    let rest = try await doctor(place.store, archive, code: 0)
    #expect(rest.contains("; the store has 3 operations more."), "\(rest)")
    #expect(!rest.contains("so has the store"), "\(rest)")
    #expect(rest.contains("moraine archive \(place.store) \(archive) (it refuses"), "\(rest)")
    _ = try await Moraine.run("archive", place.store, archive, "--checkpoint")
    let ahead = try await doctor(older, archive, code: 0)
    #expect(ahead.contains("; the store has 3 operations less."), "\(ahead)")
    #expect(ahead.contains("only if no other machine writes"), "\(ahead)")
    #expect(ahead.contains("--adopt") && !ahead.contains("rejoin"), "\(ahead)")
    let follower = restored("follower")
    _ = try await Moraine.run("follow", archive, follower, "--once")
    let followed = try await doctor(follower, archive, code: 0)
    #expect(followed.contains("The store follows archive ") && !followed.contains("--adopt"))
    let plain = try await Moraine.run("doctor", place.store)
    #expect(plain.text.contains("The store was archived: archive "), "\(plain)")
    let other = restored("other")
    _ = try await Moraine.run("put", other, "k", "v")
    #expect(try await doctor(other, archive, code: 0).contains("the copy of another store"))
    _ = try place.damage()
    let damaged = try await doctor(place.store, archive, code: 3)
    #expect(damaged.contains("With the archive: moraine restore \(archive) NEW"), "\(damaged)")
    let json = try await Moraine.run("doctor", older, "--archive", archive, "--json")
    let object = try JSONSerialization.jsonObject(with: Data(json.output)) as? [String: Any]
    #expect((object?["archive"] as? [String: Any])?["unarchivedCount"] as? Int == 0, "\(json)")
  }

  /// Regression: the advice was to archive the rest. That fences the copy that has taken over, and
  /// has written nothing yet.
  @Test func doctorAdvisesNoFenceAfterATakeOver() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let copy = restored("copy")
    try FileManager.default.copyItem(atPath: place.store, toPath: copy)
    try await place.drive("put 6b 77", "put 6c 78")
    #expect(try await Moraine.run("archive", copy, archive).code == 0)
    let advice = try await Moraine.run("doctor", place.store, "--archive", archive).text
    #expect(advice.contains("has taken over the archive (term 2)"), "\(advice)")
    #expect(advice.contains("lacks at least 2 operations of this store"), "\(advice)")
    #expect(advice.contains("moraine rejoin \(place.store) \(archive)"), "\(advice)")
    #expect(!advice.contains("moraine archive \(place.store)"), "\(advice)")
  }

  @Test func archiveIsDrawn() async throws {
    try await place.drive("put 6b 76", "put 6c 77")
    _ = try await Moraine.run("archive", place.store, archive, "--create")
    for number in 0..<3 {
      try await place.drive("put 6b 7\(number)")
      _ = try await Moraine.run("archive", place.store, archive, "--checkpoint")
    }
    let svg = place.folder.appendingPathComponent("archive.svg")
    let outcome = try await Moraine.run("archive-info", archive, "--svg", svg.path)
    #expect(outcome.code == 0, "\(outcome)")
    let text = String(decoding: try Data(contentsOf: svg), as: UTF8.self)
    #expect(XMLParser(data: Data(text.utf8)).parse())
    #expect(text.contains("newest state of sequence 5, ") && text.contains(">checkpoint 4</text>"))
    #expect(text.components(separatedBy: "class=\"strong\"").count - 1 == 4, "\(text)")
  }

  /// Regression: a store that processes had shared was opened as a shared one, and refused.
  @Test func storeThatWasSharedIsArchived() async throws {
    _ = try await place.talk("--shared") { talk in
      #expect(try await talk.ask("put 6b 76") == "ok 1")
      let beside = try await Moraine.run("archive", place.store, archive, "--create")
      #expect(beside.code == 4, "\(beside)")
      #expect(try await talk.ask("close") == "ok")
    }
    let made = try await Moraine.run("archive", place.store, archive, "--create")
    #expect(made.code == 0, "\(made)")
    #expect(try await Moraine.run("restore", archive, restored("copy")).code == 0)
    #expect(try await Moraine.run("get", restored("copy"), "k").text == "v")
  }

  @Test func followerIsPromotedAndTheEarlierWriterRejoins() async throws {
    let replica = restored("replica")
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let early = try await Moraine.run("promote", replica, archive)
    #expect(early.code == 2 && early.errors.contains("there is no follower here"), "\(early)")
    let made = try await Moraine.run("follow", archive, replica, "--once")
    #expect(made.code == 0 && made.text.hasPrefix("sequence 1, position "), "\(made)")
    #expect(try await Moraine.run("put", replica, "k", "x").code == 2)
    try await place.drive("put 6c 77")
    #expect(try await Moraine.run("archive", place.store, archive).code == 0)
    let next = try await Moraine.run("follow", archive, replica, "--once", "--json")
    let state = try JSONSerialization.jsonObject(with: Data(next.output)) as? [String: Any]
    #expect(state?["sequence"] as? Int == 2, "\(next)")
    #expect(try await Moraine.run("get", replica, "l").text == "w")
    try await place.drive("put 6d 78")
    let promoted = try await Moraine.run("promote", replica, archive)
    #expect(promoted.code == 0 && promoted.text.hasPrefix("promoted at sequence 2: "))
    #expect(try await Moraine.run("put", replica, "k", "y").code == 0)
    #expect(try await Moraine.run("archive", replica, archive).code == 0)
    #expect(try await Moraine.run("archive", place.store, archive).code == 9)
    let rejoined = try await Moraine.run("rejoin", place.store, archive)
    #expect(rejoined.code == 0 && rejoined.text.contains(".branch-1"), "\(rejoined)")
    #expect(try await Moraine.run("get", place.store, "k").text == "y")
    #expect(try await Moraine.run("get", place.store + ".branch-1", "m").text == "x")
  }

  /// Regression: in the directory of a follower, an empty path promoted that follower, and fenced a
  /// writer that was alive.
  @Test func emptyPathPromotesNoFollower() async throws {
    func term() async throws -> Int? {
      let outcome = try await Moraine.run("archive-info", archive, "--json")
      let info = try JSONSerialization.jsonObject(with: Data(outcome.output)) as? [String: Any]
      return info?["term"] as? Int
    }
    let replica = restored("replica")
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    #expect(try await Moraine.run("follow", archive, replica, "--once").code == 0)
    let before = try #require(try await term())
    let refused = try await Moraine.shell(
      #"cd "$1" && exec "$0" promote "" "$2""#, replica, archive)
    #expect(refused.code == 2 && refused.errors.contains("directory is empty;"), "\(refused)")
    #expect(try await term() == before)
    #expect(try await Moraine.run("put", replica, "k", "x").code == 2)
  }

  /// Regression: the archive was restored into a directory in the store, and then the system
  /// refused to rename the store.
  @Test func directoryThatIsRenamedNeedsItsName() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let copy = restored("copy")
    try FileManager.default.copyItem(atPath: place.store, toPath: copy)
    try await place.drive("put 6b 77")
    #expect(try await Moraine.run("archive", place.store, archive).code == 0)
    let before = try FileManager.default.contentsOfDirectory(atPath: copy).sorted()
    for path in [copy + "/.", copy + "/../copy/."] {
      for arguments in [["rejoin", path, archive], ["archive", path, archive, "--adopt"]] {
        let outcome = try await Moraine.run(arguments)
        #expect(outcome.code == 2 && outcome.errors.contains("may be renamed"), "\(outcome)")
      }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: copy).sorted() == before)
    // Without --adopt nothing is renamed. A slash at the end is not part of the name.
    #expect(try await Moraine.run("archive", copy + "/.", archive).code == 9)
    let adopted = try await Moraine.run("archive", copy + "/", archive, "--adopt")
    #expect(adopted.code == 0, "\(adopted)")
    #expect(try await Moraine.run("get", copy, "k").text == "w")
  }

  /// Regression: the directory was renamed before the archive was read. When the archive could not
  /// be restored, no store was left at the path.
  @Test func storeStaysWhereTheArchiveCannotBeFollowed() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let copy = restored("copy")
    try FileManager.default.copyItem(atPath: place.store, toPath: copy)
    #expect(try await Moraine.run("put", copy, "k", "x").code == 0)
    #expect(try await Moraine.run("archive", copy, archive).code == 0)
    let log = URL(fileURLWithPath: folder).appendingPathComponent("log")
    let names = try FileManager.default.contentsOfDirectory(atPath: log.path)
    let newest = log.appendingPathComponent(
      try #require(names.filter { $0.allSatisfy(\.isNumber) }.max()))
    let whole = try Data(contentsOf: newest)
    var damaged = whole
    damaged[40] ^= 1
    try damaged.write(to: newest)
    let refused = try await Moraine.run("rejoin", place.store, archive)
    #expect(refused.code == 3 && refused.errors.contains("log/"), "\(refused)")
    #expect(try await Moraine.run("get", place.store, "k").text == "v")
    #expect(!FileManager.default.fileExists(atPath: place.store + ".rejoining"))
    try whole.write(to: newest)
    let rejoined = try await Moraine.run("rejoin", place.store, archive)
    #expect(rejoined.code == 0 && rejoined.text.contains(".branch-1"), "\(rejoined)")
    #expect(try await Moraine.run("get", place.store, "k").text == "x")
    #expect(try await Moraine.run("get", place.store + ".branch-1", "k").text == "v")
  }

  /// Regression: the error had neither the file nor the offset.
  @Test func damageOfTheLocalStoreHasItsPlace() async throws {
    try await place.drive("put 6b 76", "put 6c 77")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let replica = restored("replica")
    #expect(try await Moraine.run("follow", archive, replica, "--once").code == 0)
    let names = try FileManager.default.contentsOfDirectory(atPath: replica).sorted()
    let segment = URL(fileURLWithPath: replica).appendingPathComponent(
      try #require(names.first { $0.hasSuffix(".segment") }))
    var bytes = try Data(contentsOf: segment)
    bytes[bytes.count / 2] ^= 0x40
    try bytes.write(to: segment)
    let damaged = try await Moraine.run("follow", archive, replica, "--once")
    #expect(damaged.code == 3 && damaged.errors.contains(".segment at byte "), "\(damaged)")
  }

  /// Without S3 the answer says how to get it; with it, what is wrong with the address.
  @Test func addressOfABucketIsExplained() async throws {
    try await place.drive("put 6b 76")
    #if S3
      let (address, part) = ("s3://bucket?acl=public", "'acl' in an address")
    #else
      let (address, part) = ("s3://bucket/users", "build it with --traits S3")
    #endif
    for arguments in [
      ["archive", place.store, address, "--create"], ["archive-info", address],
      ["archive-verify", address], ["restore", address, restored("restored")],
    ] {
      let outcome = try await Moraine.run(arguments)
      #expect(outcome.code == 2 && outcome.errors.contains(part), "\(outcome)")
    }
  }

  @Test func drivenStoreIsArchivedWhileItRuns() async throws {
    _ = try await Moraine.run("put", place.store, "first", "1")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let driven = try await Moraine.run(
      "drive", place.store, "--archive", archive,
      input: "put 6b 76\nflush\ncheckpoint\nput 6c 77\nclose\n")
    #expect(driven.text == "ok 2\nok 2\nok\nok 3\nok\n", "\(driven)")
    #expect(try await Moraine.run("restore", archive, restored("copy")).code == 0)
    #expect(try await Moraine.run("get", restored("copy"), "l").text == "w")
    let alone = try await Moraine.run("drive", place.store, input: "flush\n")
    #expect(alone.text.hasPrefix("err usage"), "\(alone)")
  }

  /// Regression: the end of the input left the last acknowledged writes out of the archive.
  @Test(arguments: ["put 6c 77\nclose\n", "put 6c 77\n"])
  func drivenStoreIsArchivedAtTheEndOfTheInput(_ input: String) async throws {
    _ = try await Moraine.run("put", place.store, "first", "1")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    // The program ends before the next round of the writer.
    let driven = try await Moraine.run("drive", place.store, "--archive", archive, input: input)
    #expect(driven.code == 0 && driven.text.hasPrefix("ok 2\n"), "\(driven)")
    let information = try await Moraine.run("archive-info", archive, "--json")
    let info = try JSONSerialization.jsonObject(with: Data(information.output)) as? [String: Any]
    #expect(info?["sequence"] as? Int == 2, "\(information)")
  }

  /// Regression: a moment that does not exist was taken for another one, and a text after the
  /// moment was ignored.
  @Test(arguments: [
    "2026-11-29T25:61:61Z", "2026-11-29T03:99:00Z", "2026-11-29T24:00:00Z",
    "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-29T03:04:24.799Zxyz",
    "2026-11-29T03:04:25Z PM", "2026-11-29T03:04:25Z+09:00", "2026-11-29T03:04:25+24:00",
    "2026-11-29T03:04:25+01:00:00", "2026-11-29T03:04:25", "2026-11-29",
  ])
  func momentThatDoesNotExistIsRefused(_ moment: String) async throws {
    // The argument is refused before the archive, which does not exist.
    let outcome = try await Moraine.run("restore", archive, restored("none"), "--at", moment)
    #expect(outcome.code == 2 && outcome.errors.contains("--at"), "\(outcome)")
    #expect(!FileManager.default.fileExists(atPath: restored("none")))
  }

  /// Regression: the command prepared the place of the archive before it looked for the store.
  @Test func pathWithoutAStoreLeavesNoArchive() async throws {
    let outcome = try await Moraine.run("archive", place.store, archive, "--create")
    #expect(outcome.code == 2, "\(outcome)")
    #expect(!FileManager.default.fileExists(atPath: folder))
    #expect(!FileManager.default.fileExists(atPath: place.store))
  }

  @Test func eachFailureHasItsExitCode() async throws {
    try await place.drive("put 6b 76")
    let unmounted = try await Moraine.run("archive", place.store, archive)
    #expect(unmounted.code == 10, "\(unmounted)")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let early = try await Moraine.run(
      "restore", archive, restored("early"), "--at", "1999-01-01T00:00:00Z")
    #expect(early.code == 2, "\(early)")
    let beyond = try await Moraine.run("restore", archive, restored("beyond"), "--through", "9")
    #expect(beyond.code == 2 && beyond.errors.contains("does not reach operation 9"), "\(beyond)")
    let plain = try await Moraine.run("restore", folder, restored("plain"), "--position", "1")
    #expect(plain.code == 2 && plain.errors.contains("are for archives"), "\(plain)")
    // An older copy of the store.
    let copy = restored("copy")
    try FileManager.default.copyItem(atPath: place.store, toPath: copy)
    try await place.drive("put 6b 77")
    #expect(try await Moraine.run("archive", place.store, archive).code == 0)
    let behind = try await Moraine.run("archive", copy, archive)
    #expect(behind.code == 9 && behind.errors.contains("older copy"), "\(behind)")
    let objects = try FileManager.default.subpathsOfDirectory(atPath: folder)
    for name in objects where name.hasPrefix("obj/") && name.split(separator: "/").count == 3 {
      let path = folder + "/" + name
      var bytes = try #require(FileManager.default.contents(atPath: path))
      bytes[bytes.count - 6] ^= 1
      try bytes.write(to: URL(fileURLWithPath: path))
    }
    let damaged = try await Moraine.run("archive-verify", archive)
    #expect(damaged.code == 3 && damaged.errors.contains("obj/"), "\(damaged)")
    let refused = try await Moraine.run("restore", archive, restored("damaged"))
    #expect(refused.code == 3, "\(refused)")
    #expect(!FileManager.default.fileExists(atPath: restored("damaged") + "/MANIFEST"))
  }

  @Test func oldStatesAreRemovedAndListed() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    for value in 0..<4 {
      try await place.drive("put 6b 7\(value)")
      #expect(try await Moraine.run("archive", place.store, archive, "--checkpoint").code == 0)
    }
    let all = try await Moraine.run("archive-info", archive, "--checkpoints")
    #expect(all.code == 0 && all.text.contains("checkpoint 5: sequence 5, "), "\(all)")
    #expect(!all.text.contains("removed"), "\(all)")
    let rule = ["--keep", "0s", "--keep-checkpoints", "0s", "--keep-days", "0"]
    let planned = try await Moraine.run(["archive-clean", archive, "--dry-run"] + rule)
    #expect(planned.code == 0 && planned.text.hasPrefix("would remove "), "\(planned)")
    let cleaned = try await Moraine.run(["archive-clean", archive, "--json"] + rule)
    let report = try JSONSerialization.jsonObject(with: Data(cleaned.output)) as? [String: Any]
    #expect(cleaned.code == 0 && report?["checkpointCount"] as? Int == 1, "\(cleaned)")
    #expect(report?["objectCount"] as? Int ?? 0 > 0, "\(cleaned)")
    let few = try await Moraine.run("archive-info", archive, "--checkpoints")
    #expect(few.text.contains("each moment from here on") && few.text.contains("removed"), "\(few)")
    #expect(try await Moraine.run("archive-verify", archive, "--deep").code == 0)
    let gone = try await Moraine.run("restore", archive, restored("gone"), "--through", "2")
    #expect(gone.code == 2 && gone.errors.contains("a cleaning has removed"), "\(gone)")
    #expect(try await Moraine.run("restore", archive, restored("latest")).code == 0)
    #expect(try await Moraine.run("get", restored("latest"), "k").text == "s")
    let wrong = try await Moraine.run("archive-clean", archive, "--keep", "7w")
    #expect(wrong.code == 2, "\(wrong)")
  }

  @Test func adoptionReplacesAnOlderCopyAndKeepsIt() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("archive", place.store, archive, "--create").code == 0)
    let copy = restored("copy")
    try FileManager.default.copyItem(atPath: place.store, toPath: copy)
    try await place.drive("put 6b 77")
    #expect(try await Moraine.run("archive", place.store, archive).code == 0)
    // The program that archived last may run on another machine: adopting would fence it.
    let advice = try await Moraine.run("doctor", copy, "--archive", archive).text
    #expect(advice.contains("moraine rejoin \(copy) \(archive)"), "\(advice)")
    #expect(!advice.contains("--adopt"), "\(advice)")
    // The copy has gone on by itself.
    #expect(try await Moraine.run("put", copy, "l", "own").code == 0)
    let refused = try await Moraine.run("archive", copy, archive)
    #expect(refused.code == 9 && refused.errors.contains("--adopt"), "\(refused)")
    let adopted = try await Moraine.run("archive", copy, archive, "--adopt")
    #expect(adopted.code == 0, "\(adopted)")
    #expect(adopted.text.contains("until now is kept: \(copy).branch-1"), "\(adopted)")
    #expect(try await Moraine.run("get", copy, "k").text == "w")
    #expect(try await Moraine.run("get", copy, "l").code == 1)
    #expect(try await Moraine.run("get", copy + ".branch-1", "l").text == "own")
    // A store that the archive continues is not replaced.
    let again = try await Moraine.run("archive", copy, archive, "--adopt", "--json")
    #expect(again.code == 0 && again.text.contains("\"branch\":null"), "\(again)")
  }
}
