import Foundation
import Testing

/// Commands that the documentation tells its readers to type.
@Suite(.timeLimit(.minutes(5))) struct DocumentedCommandTests {
  private static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// Texts in back quotes, and lines that are indented as code.
  private static func quotedTexts() throws -> [String] {
    var paths = ["README.md", "CONTRIBUTING.md", "Benchmarks/README.md"]
    paths += try FileManager.default.subpathsOfDirectory(atPath: root.path + "/Sources")
      .filter { $0.hasSuffix(".md") }.map { "Sources/" + $0 }
    return try paths.flatMap { path -> [String] in
      let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        .replacing(/(?s)```.*?```/, with: "")
      let lines = text.split(separator: "\n")
      let isCode = { (line: Substring) in line.hasPrefix("    ") }
      let prose = lines.filter { !isCode($0) }.joined(separator: " ")
      return lines.filter(isCode).map(String.init)
        + prose.matches(of: /`([^`]+)`/).map { String($0.1) }
    }
  }

  /// Returns the words after `name`, up to a pipe or a comment.
  private static func words(after name: String, in text: String) -> [[Substring]] {
    text.ranges(of: name).compactMap { range in
      let before = text[..<range.lowerBound].last
      guard before == nil || before == " " else { return nil }
      let rest = text[range.upperBound...].prefix { !"|#>;…".contains($0) }
      return rest.split(separator: " ")
    }
  }

  private static func options(_ words: [Substring]) -> [Substring] {
    words.filter { $0.hasPrefix("--") && $0.count > 2 }.map { $0.prefix { $0 != "=" } }
  }

  @Test func everyDocumentedCommandExists() async throws {
    var seen = 0
    for text in try Self.quotedTexts() {
      for words in Self.words(after: "moraine ", in: text) {
        let names = words.prefix { name in
          name.first != "-" && name.allSatisfy { $0.isLowercase || $0 == "-" }
        }
        // The list of all commands has a test of its own, and `help COMMAND` is no command.
        guard let name = names.first, names.count < 6, name != "help" else { continue }
        let isNested = name == "crash-test" && names.count > 1
        let path = [String(name)] + (isNested ? [String(names[1])] : [])
        let help = try await Moraine.run(path + ["--help"])
        #expect(help.code == 0, "\(text)")
        for option in Self.options(words) {
          #expect(help.text.contains(option), "\(text): the option \(option) does not exist")
          seen += 1
        }
      }
    }
    #expect(seen > 10, "only \(seen) options were found")
  }

  @Test func everyDocumentedScriptExists() throws {
    var seen = 0
    for text in try Self.quotedTexts() {
      for words in Self.words(after: "Scripts/", in: text) {
        guard
          let name = words.first?.prefix(while: { $0.isLetter || $0.isNumber || ".-".contains($0) }
          ),
          !name.isEmpty
        else { continue }
        let place = Self.root.appending(path: "Scripts/" + name)
        let script = try String(contentsOf: place, encoding: .utf8)
        for option in Self.options(words) {
          #expect(script.contains(option), "\(text): \(name) has no \(option)")
        }
        seen += 1
      }
    }
    #expect(seen > 30, "only \(seen) scripts were found")
  }

  /// Regression: the help wraps at 80 columns, so that a longer line was broken twice.
  @Test func linesOfTheHelpFitIntoTheTerminal() throws {
    let folder = Self.root.appending(path: "Sources/MoraineCommand")
    let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
    var count = 0
    for path in paths where path.hasSuffix(".swift") {
      let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
      var lines: [Substring]?
      for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
        let words = line.drop { $0 == " " }
        if words.hasPrefix("discussion: \"\"\"") {
          lines = []
        } else if let found = lines, words.hasPrefix("\"\"\"") {
          let indentation = line.count - words.count
          for each in found where each.count - indentation > 79 {
            Issue.record("\(path): \(each.dropFirst(indentation))")
          }
          (count, lines) = (count + 1, nil)
        } else {
          lines?.append(line)
        }
      }
    }
    #expect(count > 25, "only \(count) texts were found")
  }
}
