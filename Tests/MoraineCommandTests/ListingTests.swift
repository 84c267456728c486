import Foundation
import Testing

/// Output of scan, dump and stats.
@Suite struct ListingTests {
  let place: Place

  init() throws { place = try Place() }

  /// Writes `k` twice, so that it comes last; a key that is not UTF-8; text that needs escapes.
  private func fill() async throws {
    try await place.drive(
      "put 6b 00", "put ff -", #"put 7573c3a9 2261095c0a1b22"#, "put 6b 76ff", "del 78")
  }

  @Test func scanPrintsReadableText() async throws {
    try await fill()
    let all = try await Moraine.run("scan", place.store)
    #expect(all.lines == [#"\xff"# + "\t", "usé\t\"a\\x09\\\\x0a\\x1b\"", "k\tv\\xff", ""])
    let some = try await Moraine.run("scan", place.store, "--prefix", "us", "--keys-only")
    #expect(some.text == "usé\n")
    let first = try await Moraine.run("scan", place.store, "--limit", "1", "--keys-only")
    #expect(first.text == "\\xff\n")
    #expect(try await Moraine.run("scan", place.store, "--limit", "0").output.isEmpty)
  }

  @Test func scanJSONIsUnambiguous() async throws {
    try await fill()
    let all = try await Moraine.run("scan", place.store, "--json")
    #expect(
      all.lines == [
        #"{"keyHex":"ff","sequence":2,"value":""}"#,
        #"{"key":"usé","sequence":3,"value":"\"a\t\\\n\u001b\""}"#,
        #"{"key":"k","sequence":4,"valueHex":"76ff"}"#, "",
      ])
    for line in all.lines.dropLast() {
      _ = try JSONSerialization.jsonObject(with: Data(line.utf8))
    }
    let keys = try await Moraine.run("scan", place.store, "--json", "--keys-only")
    #expect(keys.lines.first == #"{"keyHex":"ff","sequence":2}"#)
  }

  @Test func dumpPrintsBytesOrDigits() async throws {
    try await fill()
    let bytes = try await Moraine.run("dump", place.store)
    #expect(bytes.output == Array("\n\"a\t\\\n\u{1B}\"\nv".utf8) + [0xFF, 10])
    let hex = try await Moraine.run("dump", place.store, "--format", "hex")
    #expect(hex.lines == ["ff 2 -", "7573c3a9 3 2261095c0a1b22", "6b 4 76ff", ""])
  }

  @Test func statsHasStableNames() async throws {
    try await fill()
    let json = try await Moraine.run("stats", place.store, "--json")
    let object = try JSONSerialization.jsonObject(with: Data(json.output)) as? [String: Any]
    #expect(object?["count"] as? Int == 3 && object?["lastSequence"] as? Int == 4)
    let names = [
      "count", "diskBytes", "digest", "durableSequence", "indexBytes", "isPoisoned",
      "lastSequence", "liveBytes", "segmentCount", "syncCount", "appendedBytes",
      "compactionBytes", "checkpointBytes", "compactionCount", "spaceAmplification",
      "writeAmplification", "expiredCount", "keyspaces",
    ]
    #expect(object?.keys.sorted() == names.sorted())
    #expect(object?["writeAmplification"] is NSNull, "nothing was written")
    let keyspaces = try #require(object?["keyspaces"] as? [[String: Any]])
    #expect(keyspaces.map { $0["name"] as? String } == [""])
    #expect(keyspaces.map { $0["count"] as? Int } == [3])
    let more = try await Moraine.run("stats", place.store, "--json", "--segments")
    let whole = try JSONSerialization.jsonObject(with: Data(more.output)) as? [String: Any]
    let segments = try #require(whole?["segments"] as? [[String: Any]])
    #expect(segments.map { $0["isSealed"] as? Bool } == [true])
    #expect(segments.map { $0["recordCount"] as? Int } == [4])
    let lines = try await Moraine.run("stats", place.store, "--segments")
    #expect(lines.text.contains("live share"), "\(lines.text)")
    let table = try await Moraine.run("stats", place.store)
    #expect(table.text.contains("keys           3\n"), "\(table.text)")
  }

  /// More than a pipe holds, so that the writer meets the closed pipe.
  @Test(arguments: ["dump", "scan", "scan --json", "dump --format hex"])
  func readerThatEndsEarlyIsNoFailure(_ command: String) async throws {
    let line = "{\"id\":%,\"text\":\"\(String(repeating: "x", count: 500))\"}\n"
    let text = (0..<2000).map { line.replacingOccurrences(of: "%", with: "\($0)") }.joined()
    let file = try place.file("lines", text.utf8)
    #expect(try await Moraine.run("load", place.store, file).code == 0)
    let script = "{ \"$0\" \(command) \"$1\"; echo \"code $?\" >&2; } | head -n 1"
    let outcome = try await Moraine.shell(script, place.store)
    #expect(outcome.lines.count == 2)
    #expect(outcome.errors == "code 0\n")
  }

  @Test func dumpEqualsTheLoadedInput() async throws {
    let text = (0..<3000).map { "{\"id\":\($0)}\n" }.joined()
    let file = try place.file("lines", text.utf8)
    #expect(try await Moraine.run("load", place.store, file).code == 0)
    let whole = try await Moraine.run("dump", place.store)
    #expect(whole.text == text && whole.errors.isEmpty)
  }

  /// Loads a line into each of two keyspaces, and nothing into the unnamed one.
  private func fillNamedKeyspaces() async throws {
    let file = try place.file("lines", "{\"id\":1}\n".utf8)
    for name in ["settings", "users"] {
      let loaded = try await Moraine.run("load", place.store, file, "--keyspace", name)
      #expect(loaded.code == 0, "\(loaded)")
    }
  }

  /// Regression: a misspelt name looked like a keyspace without entries.
  @Test(arguments: ["dump --keyspace", "scan --keyspace", "query --repository"])
  func misspeltKeyspaceIsRefused(_ words: String) async throws {
    try await fillNamedKeyspaces()
    let parts = words.split(separator: " ").map(String.init)
    let outcome = try await Moraine.run(parts[0], place.store, parts[1], "user")
    // A program that was killed before it made the keyspace dumps nothing.
    #expect(outcome.code == (parts[0] == "dump" ? 0 : 2) && outcome.output.isEmpty, "\(outcome)")
    let names = "no keyspace 'user'; it has the unnamed one, 'settings', 'users'\n"
    #expect(outcome.errors.hasSuffix(names), "\(outcome)")
    let found = try await Moraine.run(parts[0], place.store, parts[1], "users")
    #expect(found.code == 0 && found.text.hasSuffix("{\"id\":1}\n"), "\(found)")
    #expect(found.errors.isEmpty, "\(found)")
  }

  /// Regression: the commands printed nothing at all.
  @Test(arguments: ["dump", "scan", "query"])
  func emptyUnnamedKeyspaceBesideOthersIsNoted(_ command: String) async throws {
    try await fillNamedKeyspaces()
    let empty = try await Moraine.run(command, place.store)
    #expect(empty.code == 0 && empty.output.isEmpty, "\(empty)")
    let note = "the unnamed keyspace is empty; the store has others: 'settings', 'users'\n"
    #expect(empty.errors == note, "\(empty)")
    let file = try place.file("more", "{\"id\":2}\n".utf8)
    #expect(try await Moraine.run("load", place.store, file).code == 0)
    let filled = try await Moraine.run(command, place.store)
    #expect(filled.text.hasSuffix("{\"id\":2}\n") && filled.errors.isEmpty, "\(filled)")
  }

  /// Regression: the message named a function that a user of the command cannot call.
  @Test(arguments: [["--from", "a"], ["--to", "a"], ["--reverse"]])
  func scanExplainsThatTheKeyspaceHasNoOrder(_ options: [String]) async throws {
    try await fillNamedKeyspaces()
    for (arguments, name) in [(["--keyspace", "users"], "'users'"), ([], "the unnamed one")] {
      let outcome = try await Moraine.run(["scan", place.store] + arguments + options)
      #expect(outcome.code == 2 && outcome.output.isEmpty, "\(outcome)")
      #expect(outcome.errors.contains("need an ordered keyspace, and \(name) is"), "\(outcome)")
      #expect(outcome.errors.contains("'moraine load --ordered'"), "\(outcome)")
      #expect(!outcome.errors.contains("orderedKeyspace"), "\(outcome)")
    }
  }

  /// Regression: the first line said "1 segments", the second "compacted 0 segments: 0 B to 0 B".
  @Test func compactCountsItsSegments() async throws {
    try await place.drive("put 6b 76", "put 6b 77")
    let first = try await Moraine.run("compact", place.store)
    #expect(first.code == 0 && first.text.hasPrefix("compacted 1 segment: "), "\(first)")
    let second = try await Moraine.run("compact", place.store)
    #expect(second.code == 0 && second.text == "nothing to compact\n", "\(second)")
  }
}
