import Foundation
import MoraineFormat
import Testing

/// `moraine doctor`, as its users run it.
@Suite(.timeLimit(.minutes(10))) struct DoctorTests {
  let place: Place
  private var rescued: String { place.folder.appendingPathComponent("rescued").path }

  init() throws { place = try Place() }

  private func object(_ outcome: Outcome) throws -> [String: Any] {
    let any = try JSONSerialization.jsonObject(with: Data(outcome.output))
    return try #require(any as? [String: Any], "\(outcome)")
  }

  /// Changes one byte of a text in a segment; each key has a value of a hundred bytes after it.
  private func damage(_ text: String) throws {
    let url = try #require(try place.segments.first)
    var bytes = try Data(contentsOf: url)
    let found = try #require(bytes.range(of: Data(text.utf8)))
    bytes[found.upperBound] ^= 1
    try bytes.write(to: url)
  }

  @Test func soundStoreIsReportedAsSound() async throws {
    try await place.drive("put 6b 76", "put 6c 77", "close")
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.code == 0 && text.text.hasPrefix("Sound: every byte was read"), "\(text)")
    #expect(text.text.contains("closed in order") && text.text.contains("2 keys in 1 segment."))
    #expect(text.text.contains("Nothing to do."))
    let json = try object(try await Moraine.run("doctor", place.store, "--json"))
    #expect(json["isSound"] as? Bool == true && json["count"] as? Int == 2)
    #expect((json["advice"] as? [String])?.isEmpty == true)
  }

  @Test func expiredEntriesAreCountedApartFromKeys() async throws {
    // Expired so recently that no background work deletes it yet.
    let moment = UInt64(Date().timeIntervalSince1970 * 1000) - 1000
    try await place.drive("put 6b 76", "put 6c 77", "putx 6d 78 \(moment)")
    let text = try await Moraine.run("doctor", place.store).text
    #expect(text.contains("2 keys in 1 segment."), "\(text)")
    #expect(text.contains("1 key more will be deleted: its entry has expired."), "\(text)")
    let json = try object(try await Moraine.run("doctor", place.store, "--json"))
    #expect(json["count"] as? Int == 2 && json["expiredCount"] as? Int == 1, "\(json)")
    let keyspaces = try #require(json["keyspaces"] as? [[String: Any]])
    #expect(keyspaces.first?["count"] as? Int == 2, "\(json)")
    let table = try await Moraine.run("stats", place.store).text
    #expect(table.contains("2, and 1 that have expired"), "\(table)")
    let stats = try object(try await Moraine.run("stats", place.store, "--json"))
    #expect(stats["count"] as? Int == 3 && stats["expiredCount"] as? Int == 1, "\(stats)")
  }

  @Test func killedStoreIsReportedToNeedNoRepair() async throws {
    _ = try await place.talk("--durability", "none") { talk in
      _ = try await talk.ask("put 6b 76")
      try talk.kill()
    }
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.code == 0 && text.text.contains("not closed in order"), "\(text)")
    #expect(text.text.contains("repairs this automatically"))
  }

  @Test func damageIsNamedWithItsRemedies() async throws {
    try await place.drive("put 6b65792031 7631", "put 6b65792032 7632", "put 6b65792033 7633")
    try damage("key 2")
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.code == 3 && text.text.hasPrefix("Damaged in one place"), "\(text)")
    #expect(text.text.contains("0000000001.segment at byte"))
    #expect(text.text.contains("would bring back 2 operations, and lose:"), "\(text)")
    #expect(text.text.contains("28 bytes at byte 156: damaged; one operation"), "\(text)")
    #expect(text.text.contains("sequence 2: key 2 (as the damaged record names it)\n"), "\(text)")
    #expect(text.text.contains("moraine restore") && text.text.contains("--salvage NEW"))
    let json = try object(try await Moraine.run("doctor", place.store, "--json"))
    #expect(json["isSound"] as? Bool == false && (json["problems"] as? [Any])?.count == 1)
    let salvage = try #require(json["salvage"] as? [String: Any])
    #expect(salvage["recordCount"] as? Int == 2 && (salvage["losses"] as? [Any])?.count == 1)
  }

  /// Regression: without an index checkpoint the command counted one damaged place, and listed the
  /// losses of two.
  @Test func eachDamagedPlaceIsCountedWithoutACheckpoint() async throws {
    let segment = try await place.makeTwoDamagedRecords()
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.code == 3 && text.text.hasPrefix("Damaged in 2 places:"), "\(text)")
    #expect(text.text.contains("[\(segment.lastPathComponent) at byte 200]\n"), "\(text)")
    let json = try object(try await Moraine.run("doctor", place.store, "--json"))
    let problems = try #require(json["problems"] as? [[String: Any]])
    #expect(problems.map { $0["offset"] as? Int } == [152, 200], "\(json)")
    let salvage = try #require(json["salvage"] as? [String: Any])
    #expect((salvage["losses"] as? [Any])?.count == 2, "\(json)")
  }

  @Test func manyLostKeysAreCountedAndNotAllShown() async throws {
    let keys = (10..<40).map { String(format: "%02d", $0) }
    let puts = keys.map { "put 6b6579\($0.utf8.map { String($0, radix: 16) }.joined()) 76" }
    try await place.drive((["put 61 62"] + puts + ["put 7a 7a", "close"]).joined(separator: "\n"))
    for key in keys { try damage("key\(key)") }
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.text.contains(": key10 ") && text.text.contains(": key29 "), "\(text)")
    #expect(!text.text.contains(": key30 ") && text.text.contains("and 10 more keys"), "\(text)")
    #expect(try await Moraine.run("doctor", place.store, "--json").text.contains("\"key39\""))
  }

  @Test func aDamagedStoreIsSalvaged() async throws {
    try await place.drive("put 6b65792031 7631", "put 6b65792032 7632", "put 6b65792033 7633")
    try damage("key 2")
    let before = try place.picture()
    let text = try await Moraine.run("doctor", place.store, "--salvage", rescued)
    #expect(text.code == 3, "\(text)")
    #expect(text.text.contains("2 keys, from 2 operations"), "\(text)")
    #expect(text.text.contains("sequence 2: key 2 (as the damaged record names it)"), "\(text)")
    #expect(text.text.contains("one operation, after sequence 1 and before 3"), "\(text)")
    #expect(try place.picture() == before)
    #expect(try await Moraine.run("get", rescued, "key 1").text == "v1")
    #expect(try await Moraine.run("get", rescued, "key 2").code == 1)
    #expect(try await Moraine.run("get", rescued, "key 3").text == "v3")
    #expect(try await Moraine.run("verify", rescued).code == 0)
    let again = try await Moraine.run("doctor", place.store, "--salvage", rescued)
    #expect(again.code == 2 && again.errors.contains("already holds a store"), "\(again)")
    let json = try object(
      try await Moraine.run("doctor", place.store, "--salvage", rescued + " 2", "--json"))
    #expect(json["isComplete"] as? Bool == false && json["count"] as? Int == 2)
    let losses = try #require(json["losses"] as? [[String: Any]])
    #expect(losses.count == 1 && losses[0]["recordCount"] as? Int == 1)
    let keys = try #require(losses[0]["keys"] as? [[String: Any]])
    #expect(keys.map { $0["key"] as? String } == ["key 2"])
  }

  /// The store reads the log instead: nothing is lost, and nothing is to be restored.
  @Test(arguments: CheckpointDamage.allCases)
  func damagedIndexCheckpointIsNoDamageToTheStore(_ damage: CheckpointDamage) async throws {
    try await place.makeDamagedCheckpoint(damage)
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.code == 0 && text.text.hasPrefix("Sound: every byte of the log"), "\(text)")
    #expect(text.text.contains("checkpoint could not be used"), "\(text)")
    #expect(text.text.contains("The checkpoint needs no repair"), "\(text)")
    #expect(!text.text.contains("moraine restore"), "\(text)")
    let json = try object(try await Moraine.run("doctor", place.store, "--json"))
    #expect(json["isSound"] as? Bool == true && json["salvage"] == nil, "\(json)")
    let problem = try #require(json["checkpointProblem"] as? [String: Any], "\(json)")
    #expect(problem["code"] as? String == "corrupted", "\(json)")
  }

  /// All checksums of the checkpoint are right, and an entry is missing. The store was closed in
  /// order, so the manifest contains the live bytes of the segment.
  @Test func indexThatLacksAnEntryIsRemovedAndNotSalvaged() async throws {
    let url = try await place.makeCheckpoint()
    var bytes = [UInt8](try Data(contentsOf: url))
    let length = try bytes.withUnsafeBytes { try CheckpointHeader.claimedLength($0) }
    var header = try Array(bytes[..<length]).withUnsafeBytes { try CheckpointHeader(decoding: $0) }
    let first = try #require((length..<bytes.count).first { bytes[$0] != 0 })
    let entry = first / 8 * 8
    for place in entry..<entry + 8 { bytes[place] = 0 }
    header.keyCount -= 1
    for page in header.pageChecksums.indices {
      let start = length + page * CheckpointHeader.pageBytes
      let image = Array(bytes[start..<start + CheckpointHeader.pageBytes])
      let checksum = image.withUnsafeBytes { header.checksum(ofPage: page, $0) }
      header.pageChecksums[page] = checksum
    }
    bytes.replaceSubrange(..<length, with: header.encoded())
    try Data(bytes).write(to: url)
    let text = try await Moraine.run("doctor", place.store)
    #expect(text.text.hasPrefix("No data is damaged."), "\(text)")
    #expect(text.text.contains("Remove the *.index files"), "\(text)")
    #expect(!text.text.contains("salvage") && !text.text.contains("restore"), "\(text)")
  }

  /// Salvage finds the records without the manifest.
  @Test func aStoreWithoutItsManifestIsSalvaged() async throws {
    try await place.drive("put 6b 76", "put 6c 77")
    try FileManager.default.removeItem(atPath: "\(place.store)/MANIFEST")
    #expect(try await Moraine.run("doctor", place.store).code == 3)
    let text = try await Moraine.run("doctor", place.store, "--salvage", rescued)
    #expect(text.code == 3 && text.text.contains("MANIFEST: "), "\(text)")
    #expect(try await Moraine.run("get", rescued, "l").text == "w")
  }

  @Test func pathWithoutAStoreIsAUsageError() async throws {
    let nowhere = place.folder.appendingPathComponent("nowhere").path
    #expect(try await Moraine.run("doctor", nowhere).code == 2)
    #expect(try await Moraine.run("doctor", nowhere, "--salvage", rescued).code == 2)
  }
}
