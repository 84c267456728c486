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
}
