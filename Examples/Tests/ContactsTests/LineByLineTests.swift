import Foundation
import Testing

/// The port equals the original, except for `try` on reads and the import, as the README says.
@Suite struct LineByLineTests {
  private static let package = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// The one file that the port no longer needs.
  private static let repository = "OriginalRepository.swift"

  private static func names(_ folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(
      atPath: package.appending(path: "Sources/\(folder)").path
    ).sorted()
  }

  private static func lines(_ folder: String, _ name: String) throws -> [String] {
    let url = package.appending(path: "Sources/\(folder)/\(name)")
    return try String(contentsOf: url, encoding: .utf8)
      .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  @Test func thePortHasTheSameFiles() throws {
    #expect(
      try Self.names("ContactsOriginal").filter { $0 != Self.repository }
        == Self.names("Contacts"))
    #expect(try Self.names("ContactsOriginal").contains(Self.repository))
  }

  @Test(arguments: try names("Contacts"))
  func thePortDiffersByTryAndImport(name: String) throws {
    let original = try Self.lines("ContactsOriginal", name)
    var port = try Self.lines("Contacts", name)
    port.removeAll { $0 == "import Moraine" }
    #expect(port.count == original.count)
    for (old, new) in zip(original, port) where old != new {
      // One `try` is added, where the repository is opened or read.
      let added = ["try await repository.", "try LocalRepository"].filter(new.contains)
      #expect(added.count == 1, "\(new)")
      let range = try #require(new.range(of: "try "))
      #expect(new.replacingCharacters(in: range, with: "") == old)
    }
    // Only Contact.swift is equal in both: the test does not compare a file with itself.
    #expect((port != original) == (name != "Contact.swift"))
  }

  /// Every line of code in the README's section is one of the program's.
  @Test func theReadmeShowsLinesOfBoth() throws {
    let readme = try String(
      contentsOf: Self.package.deletingLastPathComponent().appending(path: "README.md"),
      encoding: .utf8)
    let section = try #require(
      readme.components(separatedBy: "## Porting an actor repository").last)
    let rows = section.components(separatedBy: "\n## ")[0]
      .split(separator: "\n").filter { $0.hasPrefix("| `") }
    #expect(rows.count == 6)
    for row in rows {
      let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: [" ", "`"]) }
      try #require(cells.count == 2, "\(row)")
      for (folder, cell) in zip(["ContactsOriginal", "Contacts"], cells) {
        let code = try Self.names(folder).flatMap { try Self.lines(folder, $0) }
        #expect(code.contains { $0.contains(cell) }, "\(folder) has no line '\(cell)'")
      }
    }
  }
}
