import Foundation
import Moraine
import SystemPackage
import Testing

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// `moraine inspect`, as its users run it.
@Suite(.timeLimit(.minutes(10))) struct InspectTests {
  let place: Place

  init() throws { place = try Place() }

  private func lines(_ outcome: Outcome) throws -> [[String: Any]] {
    try outcome.text.split(separator: "\n").map { line in
      let any = try JSONSerialization.jsonObject(with: Data(line.utf8))
      return try #require(any as? [String: Any])
    }
  }

  @Test func theManifestIsListed() async throws {
    try await place.drive("put 6b 76", "put 6c 77", "close")
    let outcome = try await Moraine.run("inspect", place.store, "--json")
    #expect(outcome.code == 0)
    let lines = try lines(outcome)
    #expect(lines.first?["file"] as? String == "MANIFEST")
    #expect(lines.first?["lastSequence"] as? Int == 2)
    let segment = try #require(lines.last)
    #expect(segment["segment"] as? Int == 1 && segment["recordCount"] as? Int == 2)
    #expect(segment["sealed"] as? Bool == true)
    let text = try await Moraine.run("inspect", place.store).text
    #expect(text.contains("segment 1  file 0000000001.segment  length"), "\(text)")
  }

  /// The listing has the offsets of the file and the fields of the page on the format.
  @Test func recordsAreListed() async throws {
    try await place.drive("put 6b 76", "batch 2", "put ff00 77", "del 6b", "close")
    let outcome = try await Moraine.run("inspect", place.store, "--segment", "1", "--json")
    #expect(outcome.code == 0, "\(outcome)")
    let lines = try lines(outcome)
    #expect(lines[0]["headerLength"] as? Int == 128 && lines[0]["segmentNumber"] as? Int == 1)
    let records = lines.dropFirst().filter { ["put", "delete"].contains($0["kind"] as? String) }
    #expect(records.map { $0["offset"] as? Int } == [128, 152, 176])
    #expect(records.map { $0["sequence"] as? Int } == [1, 2, 3])
    #expect(records.map { $0["batch"] as? String } == ["alone", "more", "end"])
    #expect(records.map { $0["key"] as? String } == ["k", nil, "k"])
    #expect(records[records.startIndex + 1]["keyHex"] as? String == "ff00")
    #expect(records.allSatisfy { ($0["checksum"] as? Int ?? 0) != 0 })
    let mark = lines.first { $0["kind"] as? String == "syncMark" }
    #expect(mark == nil || mark?["durableOffset"] is Int)
    #expect(lines.last?["kind"] as? String == "footer")
    #expect(lines.last?["recordCount"] as? Int == 3 && lines.last?["lastSequence"] as? Int == 3)
    #expect((lines.last?["digest"] as? String)?.count == 32)
  }

  @Test func damagedPlacesAreListed() async throws {
    try await place.drive("put 6b 76", "put 6c 77", "put 6d 78", "close")
    let url = try #require(try place.segments.first)
    var bytes = try Data(contentsOf: url)
    bytes[128 + 24 + 20] ^= 1
    try bytes.write(to: url)
    let outcome = try await Moraine.run("inspect", place.store, "--segment", "1", "--json")
    let message = "moraine: 1 range in \(url.lastPathComponent) holds no whole record\n"
    #expect(outcome.code == 3 && outcome.errors == message, "\(outcome)")
    let lines = try lines(outcome)
    let damaged = try #require(lines.first { $0["kind"] as? String == "damaged" })
    #expect(damaged["offset"] as? Int == 152 && damaged["length"] as? Int == 24)
    #expect(lines.filter { $0["kind"] as? String == "put" }.count == 2)
    bytes[20] ^= 1
    try bytes.write(to: url)
    let header = try await Moraine.run("inspect", place.store, "--segment", "1")
    #expect(header.code == 3 && header.errors.contains("checksum"), "\(header)")
  }

  /// Regression: a torn write was listed as damaged, and a short one as empty. What another
  /// record follows was not torn, and neither was the end of a sealed segment.
  @Test(arguments: [4, 24]) func tornWriteIsNoDamage(tornBytes: Int) async throws {
    _ = try await place.talk("--durability", "none") { talk in
      for (index, key) in ["6b", "6c", "6d"].enumerated() {
        #expect(try await talk.ask("put \(key) 76") == "ok \(index + 1)")
      }
      try talk.kill()
    }
    let url = try #require(try place.segments.first)
    let whole = try Data(contentsOf: url)
    func list(damaging places: [Int]) async throws -> Outcome {
      var bytes = whole.prefix(176 + tornBytes)
      for place in places { bytes[place] ^= 1 }
      try bytes.write(to: url)
      return try await Moraine.run("inspect", place.store, "--segment", "1", "--json")
    }
    let torn = try await list(damaging: [176])
    #expect(torn.code == 0 && torn.errors.isEmpty, "\(torn)")
    let last = try #require(try lines(torn).last)
    #expect(last["kind"] as? String == "torn" && last["offset"] as? Int == 176, "\(torn)")
    #expect(last["length"] as? Int == tornBytes, "\(torn)")
    #expect(try await Moraine.run("verify", place.store).code == 0)
    let both = try await list(damaging: [152 + 20, 176])
    #expect(both.code == 0, "\(both)")
    let damaged = try await list(damaging: [128 + 20, 176])
    #expect(damaged.code == 3 && damaged.errors.contains("1 range in"), "\(damaged)")
    let kinds = try lines(damaged).compactMap { $0["kind"] as? String }
    #expect(kinds == ["damaged", "put", "torn"], "\(damaged)")
    // A sealed segment has no end that was torn.
    try whole.write(to: url)
    try await place.drive("close")
    var bytes = try Data(contentsOf: url)
    bytes[176 + 20] ^= 1
    try bytes.write(to: url)
    #expect(try await Moraine.run("inspect", place.store, "--segment", "1").code == 3)
  }

  /// Half of the keys are overwritten: the drawing has as much light as dark.
  @Test func theStoreIsDrawn() async throws {
    let puts = (0..<40).map { "put \(String(format: "%02x", $0 % 20)) 76767676" }
    try await place.drive(puts.joined(separator: "\n"), "close")
    let svg = place.folder.appendingPathComponent("store.svg")
    let outcome = try await Moraine.run("inspect", place.store, "--svg", svg.path)
    #expect(outcome.code == 0, "\(outcome)")
    let text = String(decoding: try Data(contentsOf: svg), as: UTF8.self)
    #expect(XMLParser(data: Data(text.utf8)).parse())
    #expect(text.contains("1 segment,"), "\(text.prefix(600))")
    let bars = text.components(separatedBy: "fill-opacity").count - 1
    #expect(20...60 ~= bars, "\(bars)")
  }

  /// Names of keyspaces may contain anything, also what ends an XML element.
  @Test func keyspacesIndexesAndKeyOrderAreDrawn() async throws {
    struct Note: Codable, Identifiable, Sendable {
      var id: Int
      var topic: String
    }
    let store = try await Store.open(at: FilePath(place.store))
    let notes = try LocalRepository<Note>(
      in: store, named: "notes", indexes: [.index("topic", on: \.topic)])
    try await notes.save(contentsOf: (0..<50).map { Note(id: $0, topic: "\($0 % 5)") })
    try await notes.buildIndexes()
    let ordered = try store.orderedKeyspace(named: "a </text> & <b>")
    for number in 0..<30 { try await ordered.set([1, 2, 3], forKey: Key("\(number)")) }
    try await store.close()
    let svg = place.folder.appendingPathComponent("store.svg")
    let outcome = try await Moraine.run("inspect", place.store, "--svg", svg.path)
    #expect(outcome.code == 0, "\(outcome)")
    let text = String(decoding: try Data(contentsOf: svg), as: UTF8.self)
    #expect(XMLParser(data: Data(text.utf8)).parse())
    #expect(text.contains(">notes</text>") && text.contains("50 keys, "), "\(text)")
    #expect(text.contains(": topic 50</text>"), "\(text)")
    #expect(text.contains("a &lt;/text&gt; &amp; &lt;b&gt;: from left to right its keys"))
    #expect(text.contains("neighbours lie in 1.00 of 12 parts"), "\(text)")
    let doctor = try await Moraine.run("doctor", place.store)
    #expect(doctor.code == 0, "\(doctor)")
    #expect(doctor.text.contains("  notes: 50 keys, ") && doctor.text.contains(": topic 50\n"))
    #expect(doctor.text.contains("a </text> & <b>: 30 keys, "), "\(doctor)")
    // The list of the indexes is a record with their names.
    let segment = try #require(try place.segments.first)
    var bytes = try Data(contentsOf: segment)
    let name = try #require(bytes.range(of: Data("topic".utf8)))
    bytes[name.lowerBound] ^= 1
    try bytes.write(to: segment)
    let damaged = try await Moraine.run("doctor", place.store)
    #expect(damaged.text.contains(": part of an index of notes; programs build it again"))
  }

  @Test func missingSegmentOrStoreIsAUsageError() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("inspect", place.store, "--segment", "9").code == 2)
    let nowhere = place.folder.appendingPathComponent("nowhere").path
    #expect(try await Moraine.run("inspect", nowhere).code == 2)
  }
}
