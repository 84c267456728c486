import Foundation
import Testing

/// Files that the documents for contributors name.
@Suite struct DocumentedFileTests {
  private static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  private static let documents = [
    "CONTRIBUTING.md", "Sources/Moraine/Moraine.docc/Architecture.md",
  ]

  /// Paths of all files below a folder, from the root.
  private static func paths(in folder: String) throws -> Set<String> {
    let names = try FileManager.default.subpathsOfDirectory(
      atPath: root.appending(path: folder).path)
    return Set(names.map { "\(folder)/\($0)" })
  }

  @Test func everyDocumentedFileExists() throws {
    let sources = try Self.paths(in: "Sources")
    let tests = try Self.paths(in: "Tests")
    let all = sources.union(tests)
    var count = 0
    for document in Self.documents {
      let text = try String(
        contentsOf: Self.root.appending(path: document), encoding: .utf8)
      for match in text.matches(of: /`([A-Za-z+\/]+\.(?:swift|py|c))`/) {
        count += 1
        let end = "/\(match.1)"
        let isThere = all.contains { "/\($0)".hasSuffix(end) }
        #expect(isThere, "\(document) names '\(match.1)', and no such file exists")
      }
      // A part of a type: `Store+Reads`.
      for match in text.matches(of: /`(\w+\+\w+)`/) {
        count += 1
        let isThere = sources.contains { $0.hasSuffix("/\(match.1).swift") }
        #expect(isThere, "\(document) names '\(match.1)', and no such file exists")
      }
    }
    #expect(count > 60, "the names were not found")
  }
}
