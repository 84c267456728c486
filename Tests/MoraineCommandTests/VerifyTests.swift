import Foundation
import Subprocess
import Testing

@Suite(.timeLimit(.minutes(10))) struct VerifyTests {
  let place: Place

  init() throws { place = try Place() }

  @Test func soundStoreIsReportedAsSound() async throws {
    try await place.drive("put 6b 76", "put 6c 76")
    #expect(try await Moraine.run("verify", place.store).text.hasPrefix("sound: 2 records, "))
    let json = try await Moraine.run("verify", place.store, "--json")
    let object = try JSONSerialization.jsonObject(with: Data(json.output)) as? [String: Any]
    #expect(object?["isSound"] as? Bool == true && object?["recordCount"] as? Int == 2)
    #expect((object?["problems"] as? [Any])?.isEmpty == true)
  }

  @Test func damageIsNamedByFileAndOffset() async throws {
    try await place.drive("put 6b \(String(repeating: "76", count: 999))")
    let (file, length) = try place.damage()
    let plain = try await Moraine.run("verify", place.store)
    #expect(plain.code == 3 && plain.output.isEmpty && plain.errors.contains("[\(file) at byte "))
    let json = try await Moraine.run("verify", place.store, "--json")
    #expect(json.code == 3)
    let object = try JSONSerialization.jsonObject(with: Data(json.output)) as? [String: Any]
    #expect(object?["isSound"] as? Bool == false && object?["problemCount"] as? Int == 1)
    let problem = (object?["problems"] as? [[String: Any]])?.first
    #expect(problem?["file"] as? String == file && problem?["code"] as? String == "corrupted")
    #expect(try #require(problem?["offset"] as? Int) <= length)
    #expect((problem?["message"] as? String)?.isEmpty == false)
  }

  /// Regression: without an index checkpoint the opening reads the log, and the command named only
  /// the place at which the opening had stopped.
  @Test func eachDamagedPlaceIsNamedWithoutACheckpoint() async throws {
    let segment = try await place.makeTwoDamagedRecords()
    let plain = try await Moraine.run("verify", place.store)
    #expect(plain.code == 3 && plain.output.isEmpty, "\(plain)")
    let lines = plain.errors.split(separator: "\n")
    #expect(lines.count == 2, "\(plain)")
    #expect(lines.first?.contains("at byte 152]") == true, "\(plain)")
    #expect(lines.last?.contains("[\(segment.lastPathComponent) at byte 200]") == true, "\(plain)")
    let json = try await Moraine.run("verify", place.store, "--json")
    let any = try JSONSerialization.jsonObject(with: Data(json.output))
    let object = try #require(any as? [String: Any], "\(json)")
    #expect(object["problemCount"] as? Int == 2 && object["recordCount"] as? Int == 2, "\(json)")
    let length = try Data(contentsOf: segment).count
    #expect(object["checkedBytes"] as? Int == length, "\(json)")
    let problems = try #require(object["problems"] as? [[String: Any]])
    #expect(problems.map { $0["offset"] as? Int } == [152, 200], "\(json)")
    #expect(problems.allSatisfy { $0["code"] as? String == "corrupted" }, "\(json)")
  }

  @Test func eachDamagedFileIsNamedWithoutACheckpoint() async throws {
    let puts = (0..<8).map { "put 6b3\($0) \(String(repeating: "76", count: 60))\n" }
    let made = try await Moraine.run(
      "drive", place.store, "--durability", "none", "--segment-size", "300",
      input: puts.joined() + "close\n")
    #expect(made.code == 0, "\(made)")
    let files = try place.segments.prefix(4)
    #expect(files.count == 4, "\(files)")
    for file in files.prefix(2) {
      var bytes = try Data(contentsOf: file)
      bytes[40] ^= 1
      try bytes.write(to: file)
    }
    let headers = try await Moraine.run("verify", place.store)
    #expect(headers.code == 3, "\(headers)")
    let expected = files.prefix(2).map { "[\($0.lastPathComponent) at byte 0]" }
    let lines = headers.errors.split(separator: "\n")
    #expect(lines.count == 2, "\(headers)")
    for (line, name) in zip(lines, expected) { #expect(line.contains(name), "\(headers)") }
    for file in files.suffix(2) { try FileManager.default.removeItem(at: file) }
    let missing = try await Moraine.run("verify", place.store)
    #expect(missing.code == 3, "\(missing)")
    for file in files {
      #expect(missing.errors.contains("[\(file.lastPathComponent)"), "\(missing)")
    }
  }

  /// The store reads the log instead.
  @Test(arguments: CheckpointDamage.allCases)
  func damagedIndexCheckpointIsNoDamageToTheStore(_ damage: CheckpointDamage) async throws {
    try await place.makeDamagedCheckpoint(damage)
    let text = try await Moraine.run("verify", place.store)
    #expect(text.code == 0 && text.errors.isEmpty, "\(text)")
    #expect(text.lines.first?.hasPrefix("sound: 2 records, ") == true, "\(text)")
    #expect(text.text.contains("checkpoint could not be used"), "\(text)")
    let json = try await Moraine.run("verify", place.store, "--json")
    #expect(json.code == 0, "\(json)")
    let any = try JSONSerialization.jsonObject(with: Data(json.output))
    let object = try #require(any as? [String: Any], "\(json)")
    #expect(object["isSound"] as? Bool == true && object["problemCount"] as? Int == 0)
    let problem = try #require(object["checkpointProblem"] as? [String: Any], "\(json)")
    #expect(problem["code"] as? String == "corrupted", "\(json)")
  }

  @Test func damagedPageThatOnlyVerifyReadsIsNoDamageToTheStore() async throws {
    try await place.makeLargeDamagedCheckpoint(keyCount: 260_000)
    let text = try await Moraine.run("verify", place.store)
    #expect(text.code == 0 && text.errors.isEmpty, "\(text)")
    #expect(text.lines.first?.hasPrefix("sound: 260,000 records, ") == true, "\(text)")
    #expect(text.text.contains("checkpoint could not be used"), "\(text)")
    let examined = try await Moraine.run("doctor", place.store)
    #expect(examined.code == 0, "\(examined)")
    #expect(examined.text.hasPrefix("Sound: every byte of the log"), "\(examined)")
    #expect(examined.text.contains("checkpoint could not be used"), "\(examined)")
  }

  @Test func aStoreWithoutAManifestIsDamaged() async throws {
    try await place.drive("put 6b 76")
    try FileManager.default.removeItem(atPath: place.store + "/MANIFEST")
    let json = try await Moraine.run("verify", place.store, "--json")
    #expect(json.code == 3 && json.text.contains(#""offset":null"#), "\(json)")
    _ = try JSONSerialization.jsonObject(with: Data(json.output))
  }

  /// Compares names, bytes and times of every file, of a store closed in order and of a killed
  /// store.
  @Test(arguments: [false, true])
  func readingCommandsChangeNoFile(isKilled: Bool) async throws {
    let (_, status) = try await place.talk("--durability", "none", "--segment-size", "4096") {
      talk in
      for index in 0..<40 {
        let line = "put 6b\(10 + index) \(String(repeating: "ab", count: 200 + index))"
        #expect(try await talk.ask(line) == "ok \(index + 1)")
      }
      if isKilled { try talk.kill() } else { #expect(try await talk.ask("close") == "ok") }
    }
    #expect(status == (isKilled ? .signaled(SIGKILL) : .exited(0)))
    let picture = try place.picture()
    for command in ["stats", "scan", "dump", "verify"] {
      let outcome = try await Moraine.run(command, place.store)
      #expect(outcome.code == 0 && outcome.errors.isEmpty, "\(outcome)")
      #expect(try place.picture() == picture, "\(command) changed a file")
    }
    #expect(try await Moraine.run("get", place.store, "none").code == 1)
    #expect(try place.picture() == picture)
    let stats = try await Moraine.run("stats", place.store)
    #expect(stats.text.contains("not in order") == isKilled)
    #expect(try await Moraine.run("dump", place.store).lines.count == 41)
  }
}
