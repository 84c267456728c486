import Foundation
import Testing

/// Every Swift line of the documentation is compiled: it stands in this target too, or, where it
/// needs a trait, in the tests that `Scripts/clients` runs; or in what `Scripts/check-readme`
/// builds.
@Suite struct DocumentedCodeTests {
  @Test(arguments: try Page.all())
  func documentedCodeIsCompiled(page: Page) throws {
    for block in page.blocks where !page.isBuiltAsAPackage(block) {
      for chunk in block.chunks where try !Page.compiled().contains(where: { $0.has(chunk) }) {
        Issue.record(
          """
          \(page.path):\(block.line) shows lines that no file of \(Page.compiledFolders) has:
          \(chunk.joined(separator: "\n"))
          """)
      }
    }
  }

  /// Shows that the comparison finds a difference.
  @Test func otherCodeIsNotTakenForCompiled() throws {
    #expect(try !Page.compiled().contains { $0.has(["try await store.lose(everything)"]) })
  }

  @Test func thePagesHaveCode() throws {
    #expect(try Page.all().map(\.blocks.count).reduce(0, +) > 40)
  }
}

/// A text that contains Swift.
struct Page: Sendable, CustomTestStringConvertible {
  struct Block {
    let line: Int
    var lines: [String] = []

    /// The code between blank lines: an article may leave out the lines in between.
    var chunks: [[String]] {
      lines.split(separator: "").map { $0.map { $0.trimmingCharacters(in: .whitespaces) } }
    }
  }

  let path: String
  let lines: [String]
  var testDescription: String { path }

  private static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  private init(_ path: String) throws {
    self.path = path
    lines = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
      .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  static func all() throws -> [Page] {
    try ["README.md", "CONTRIBUTING.md"].map(Page.init)
      + files(in: "Sources").filter { $0.contains(".docc/") && $0.hasSuffix(".md") }.map(Page.init)
  }

  static let compiledFolders = [
    "Tests/MoraineDocumentationTests", "Tests/Clients/IntegrationsClient/Tests",
  ]

  static func compiled() throws -> [Page] {
    try compiledFolders.flatMap(files).filter { $0.hasSuffix(".swift") }.map(Page.init)
  }

  private static func files(in folder: String) throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path)
      .sorted().map { folder + "/" + $0 }
  }

  var blocks: [Block] {
    var blocks: [Block] = []
    var isInside = false
    for (number, line) in lines.enumerated() {
      if line == "```swift" {
        blocks.append(Block(line: number + 1))
        isInside = true
      } else if line == "```" {
        isInside = false
      } else if isInside {
        blocks[blocks.count - 1].lines.append(line)
      }
    }
    return blocks
  }

  /// A manifest cannot be part of a test; and `Scripts/check-readme` builds the blocks that an
  /// article names a file.
  func isBuiltAsAPackage(_ block: Block) -> Bool {
    let before = lines[..<(block.line - 1)].last { !$0.isEmpty } ?? ""
    return before.hasSuffix(".swift`") || block.lines.first == "// Package.swift"
  }

  /// Whether the text contains these lines in sequence, apart from blank lines.
  func has(_ chunk: [String]) -> Bool {
    let own = lines.map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    return own.indices.contains { own[$0...].starts(with: chunk) }
  }
}
