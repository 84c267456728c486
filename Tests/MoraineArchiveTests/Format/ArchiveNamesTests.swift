import MoraineArchive
import Testing

/// Names of the objects of an archive.
@Suite struct ArchiveNamesTests {
  private func names(_ root: String) throws -> ArchiveNames {
    try ArchiveNames(root: ObjectName(root))
  }

  @Test func namesHaveTheDocumentedForm() throws {
    let names = try names("backups/users")
    let data = DataObjectName(term: 7, nonce: Nonce(low: 0xABCD, high: 1))
    #expect(names.identity.text == "backups/users/archive")
    #expect(names.head.text == "backups/users/head")
    #expect(names.term(7).text == "backups/users/term/0000000007")
    #expect(names.checkpoint(12).text == "backups/users/chk/0000000012")
    #expect(names.commit(1).text == "backups/users/log/000000000000001")
    #expect(data.description == "obj/0000000007/cdab0000000000000100000000000000")
    #expect(names.data(data).text == "backups/users/" + data.description)
    #expect(names.dataObjects(ofTerm: 7).text == "backups/users/obj/0000000007")
  }

  @Test(arguments: ["", "a", "backups/users", "log/term"])
  func namesAreParsedAsTheyWereBuilt(root: String) throws {
    let names = try names(root)
    for seed in 1...100 as ClosedRange<UInt64> {
      var samples = FormatSamples(seed: seed)
      let term = samples.anyNumber(1...ArchiveLimits.term)
      let position = samples.anyNumber(1...ArchiveLimits.position)
      let data = samples.dataName()
      #expect(names.object(named: names.term(term)) == .term(term), "seed \(seed)")
      #expect(names.object(named: names.commit(position)) == .commit(position), "seed \(seed)")
      #expect(names.object(named: names.checkpoint(term)) == .checkpoint(term), "seed \(seed)")
      #expect(names.object(named: names.data(data)) == .data(data), "seed \(seed)")
      #expect(try ObjectName(names.data(data).text) == names.data(data), "seed \(seed)")
    }
    #expect(names.object(named: names.identity) == .identity)
    #expect(names.object(named: names.head) == .head)
  }

  @Test func namesAreOrderedByTheirNumbers() throws {
    let names = try names("a")
    let positions = [1, 9, 10, 999, 1000, ArchiveLimits.position] as [UInt64]
    let texts = positions.map { names.commit($0) }
    #expect(texts.sorted() == texts)
  }

  @Test(
    arguments: [
      "a", "b/archive", "a/archive/x", "a/log/1", "a/log/000000000000000", "a/term/00000000001",
      "a/term/000000000a", "a/chk/0000000000", "a/obj/0000000001", "a/log/00000000000001-",
      "a/obj/0000000000/00000000000000000000000000000001",
      "a/obj/0000000001/0000000000000000000000000000000g",
      "a/obj/0000000001/00000000000000000000000000000001/x", "ab/head", "a/log",
    ])
  func otherNamesAreNotOfTheArchive(text: String) throws {
    #expect(try names("a").object(named: ObjectName(text)) == nil)
  }

  @Test func dataNamesHaveOneSpelling() {
    let text = "obj/0000000001/" + String(repeating: "ab", count: 16)
    #expect(DataObjectName(text)?.description == text)
    #expect(DataObjectName(text.uppercased()) == nil)
    #expect(DataObjectName("obj/0000000001/" + String(repeating: "AB", count: 16)) == nil)
  }

  @Test func rootsThatLeaveNoRoomForNamesAreRefused() throws {
    let longest = try names(String(repeating: "a", count: 464))
    var samples = FormatSamples(seed: 1)
    #expect(longest.data(samples.dataName()).text.utf8.count == ObjectName.lengthBytes)
    let error = #expect(throws: ArchiveError.self) {
      try names(String(repeating: "a", count: 465))
    }
    #expect(error?.code == .invalidName)
  }
}
