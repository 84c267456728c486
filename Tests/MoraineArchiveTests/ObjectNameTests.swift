import MoraineArchive
import Testing

/// Names of objects.
@Suite struct ObjectNameTests {
  @Test(arguments: ["users", "log/000000000000017", "a-b/c", ""])
  func namesOfAllowedCharactersAreTaken(text: String) throws {
    #expect(try ObjectName(text).text == text)
  }

  @Test(arguments: ["/a", "a/", "a//b", "A", "a b", "ä", "a.b", "..", "a_b", "%61"])
  func otherNamesAreRefusedWithTheAllowedCharacters(text: String) {
    let error = #expect(throws: ArchiveError.self) { try ObjectName(text) }
    #expect(error?.code == .invalidName)
    #expect(error?.message.contains("'\(text)'") == true)
  }

  @Test func namesAreOrderedByBytes() throws {
    let names = try ["a-b", "a", "b", "a/b"].map(ObjectName.init)
    #expect(names.sorted().map(\.text) == ["a", "a-b", "a/b", "b"])
  }

  @Test func longNamesAreRefused() {
    #expect(throws: ArchiveError.self) { try ObjectName(String(repeating: "a", count: 513)) }
  }
}
