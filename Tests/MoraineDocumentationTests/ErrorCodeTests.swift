import Foundation
import Testing

/// The article about errors, which promises the cause of every error.
@Suite struct ErrorCodeTests {
  private static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  private static func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: "Sources/" + path), encoding: .utf8)
  }

  /// Codes that a type of errors declares.
  private static func codes(in path: String) throws -> [String] {
    try text(path).matches(of: /public static let (\w+) = Code\("/).map { String($0.1) }
  }

  /// Codes that have a row in a part of the article.
  private static func rows(_ part: Substring) -> Set<String> {
    Set(part.matches(of: /\n\| `\.(\w+)` \|/).map { String($0.1) })
  }

  @Test func eachCodeOfAnErrorHasItsRow() throws {
    let article = try Self.text("Moraine/Moraine.docc/Troubleshooting.md")
    let begin = try #require(article.range(of: "### Archives\n"))
    let end = try #require(
      article.range(of: "\n### ", range: begin.upperBound..<article.endIndex))
    let ofArchives = Self.rows(article[begin.upperBound..<end.lowerBound])
    let before = Self.rows(article[..<begin.lowerBound])
    let ofStores = before.union(Self.rows(article[end.lowerBound...]))
    let codesOfStores = try Self.codes(in: "MoraineEngine/API/StoreError.swift")
    let codesOfArchives = try Self.codes(in: "MoraineArchive/ArchiveError.swift")
    #expect(codesOfStores.count > 20 && codesOfArchives.count > 10)
    #expect(ofStores == Set(codesOfStores))
    #expect(ofArchives == Set(codesOfArchives))
  }
}
