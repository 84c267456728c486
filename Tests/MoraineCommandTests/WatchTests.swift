import Foundation
import Subprocess
import Synchronization
import Testing

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// `moraine watch` and `moraine bench`, as their users run them.
@Suite(.timeLimit(.minutes(10))) struct WatchTests {
  let place: Place

  init() throws { place = try Place() }

  private static func lines(_ outcome: Outcome) throws -> [[String: Any]] {
    try outcome.text.split(separator: "\n").map { line in
      let any = try JSONSerialization.jsonObject(with: Data(line.utf8))
      return try #require(any as? [String: Any])
    }
  }

  @Test func changesAfterASequenceNumberArePrinted() async throws {
    try await place.drive("put 6b 76", "put 6c 77", "put ff fe", "del 6b", "close")
    let outcome = try await Moraine.run(
      "watch", place.store, "--since", "1", "--limit", "3")
    #expect(outcome.code == 0, "\(outcome)")
    let lines = try Self.lines(outcome)
    #expect(lines.map { $0["sequence"] as? Int } == [2, 3, 4])
    #expect(lines.map { $0["key"] as? String } == ["l", nil, "k"])
    #expect(lines.map { $0["value"] as? String } == ["w", nil, nil])
    #expect(lines[1]["keyHex"] as? String == "ff" && lines[1]["valueHex"] as? String == "fe")
    #expect(lines.map { $0["removed"] as? Bool } == [nil, nil, true])
    // The feed also contains the removed record, with its removal.
    let all = try await Moraine.run("watch", place.store, "--all", "--keys-only", "--limit", "4")
    #expect(try Self.lines(all).map { $0["key"] as? String } == ["k", "l", nil, "k"], "\(all)")
    #expect(try Self.lines(all).last?["removed"] as? Bool == true)
    #expect(!all.text.contains("value"))
  }

  /// Another process writes until this process has received two changes.
  @Test func writesOfAnotherProcessArePrinted() async throws {
    try await place.drive("put 6b 76", "close")
    let store = place.store
    _ = try await place.talk("--shared") { talk in
      let hasEnded = Mutex(false)
      let watching = Task {
        defer { hasEnded.withLock { $0 = true } }
        return try await Moraine.run("watch", store, "--limit", "2")
      }
      var last = 1
      while !hasEnded.withLock({ $0 }) {
        last += 1
        #expect(try await talk.ask("put 6c 77") == "ok \(last)")
      }
      let outcome = try await watching.value
      #expect(outcome.code == 0, "\(outcome)")
      // The watch begins with later changes, not with those written before.
      let numbers = try Self.lines(outcome).map { $0["sequence"] as? Int ?? 0 }
      #expect(numbers.count == 2 && numbers[0] > 1 && numbers[1] == numbers[0] + 1)
      _ = try await talk.ask("close")
    }
  }

  /// A reader holds the lock only while it opens the store.
  @Test func aWatchedStoreCanBeOpenedExclusively() async throws {
    try await place.drive("put 6b 76", "close")
    let store = place.store
    let (_, status) = try await place.talk("--all", command: "watch") { talk in
      #expect(try await talk.nextLine()?.contains(#""key":"k""#) == true)
      // Nothing has shared the store, so that this command opens it exclusively.
      let put = try await Moraine.run("put", store, "l", "w")
      #expect(put.code == 0, "\(put)")
      try talk.kill()
    }
    #expect(status == .signaled(SIGKILL))
    let help = try await Moraine.run("watch", "--help")
    #expect(!help.text.contains("is refused"), "\(help)")
  }

  @Test func changesThatCannotBeWatchedHaveTheirExitCode() async throws {
    try await place.drive("put 6b 76", "put 6b 77", "del 6b", "put 6c 78", "compact", "close")
    let beyond = try await Moraine.run("watch", place.store, "--since", "9", "--limit", "1")
    #expect(beyond.code == 2 && beyond.errors.contains("only reached 4"), "\(beyond)")
    let expired = try await Moraine.run("watch", place.store, "--since", "1", "--limit", "1")
    #expect(expired.code == 2, "\(expired)")
    let both = try await Moraine.run("watch", place.store, "--since", "1", "--all")
    #expect(both.code == 2, "\(both)")
    _ = try await place.talk { talk in
      _ = try await talk.ask("put 6d 78")
      let locked = try await Moraine.run("watch", place.store, "--limit", "1")
      #expect(locked.code == 4, "\(locked)")
      _ = try await talk.ask("close")
    }
  }

  /// Every row is printed, and the store is removed.
  @Test func benchMeasuresAndLeavesNothing() async throws {
    let outcome = try await Moraine.run(
      "bench", place.folder.path, "--count", "300", "--commits", "20", "--json")
    #expect(outcome.code == 0, "\(outcome)")
    let rows = try Self.lines(outcome).compactMap { $0["row"] as? String }
    #expect(rows.contains("fillrandom") && rows.contains("fillsync x256") && rows.count > 12)
    #expect(try Self.lines(outcome).allSatisfy { ($0["microseconds"] as? Double ?? 0) > 0 })
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.path).isEmpty)
    let svg = place.folder.appendingPathComponent("bench.svg")
    let table = try await Moraine.run(
      "bench", place.folder.path, "--count", "10", "--commits", "2", "--value-size", "0",
      "--svg", svg.path)
    #expect(table.code == 0 && table.text.contains("readrandom, snapshot"), "\(table)")
    let drawing = try Data(contentsOf: svg)
    #expect(XMLParser(data: drawing).parse())
    let bars = String(decoding: drawing, as: UTF8.self).components(separatedBy: "\"strong\"")
    #expect(bars.count - 1 == rows.count)
    // Before anything is measured.
    for place in [place.folder.path + "/nowhere/a.svg", place.folder.path] {
      let refused = try await Moraine.run("bench", self.place.folder.path, "--svg", place)
      #expect(refused.code == 2 && refused.output.isEmpty, "\(refused)")
    }
    let nowhere = try await Moraine.run("bench", place.folder.path + "/nowhere")
    #expect(nowhere.code == 2)
    #expect(try await Moraine.run("bench", place.folder.path, "--count", "0").code == 2)
  }
}
