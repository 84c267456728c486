import Testing

/// Habits of language that made comments and names hard to read, as far as a machine can see them.
@Suite struct EnglishTests {
  /// Words for which comments and names have a plainer one: after, again, the caller, another
  /// process, while it runs.
  private static let words = ["behind", "anew", "whoever", "nobody", "somebody", "meanwhile"]
  /// Words that compare the program with people. The comments say: state, pass, report, show.
  private static let pictures = [
    "vouch", "vouches", "lend", "lends", "lent", "told", "tell", "tells", "brings home",
    "brought home",
  ]
  /// A doc comment that begins so has no subject.
  private static let beginnings = ["Of", "That", "Also", "As"]

  @Test func commentsUsePlainWords() throws {
    for (file, line, text) in try comments() {
      let words = text.lowercased().split(whereSeparator: { !$0.isLetter })
      let whole = " \(words.joined(separator: " ")) "
      for word in Self.words + Self.pictures where whole.contains(" \(word) ") {
        Issue.record("\(file):\(line) says '\(word)'")
      }
    }
  }

  @Test func namesUsePlainWords() throws {
    var count = 0
    for module in try Source.modules() {
      for file in try Source.files(in: module) {
        let names = Set(file.names)
        count += names.count
        for name in names {
          for word in Self.words where Self.parts(of: name).contains(word) {
            Issue.record("\(file.path) has the name \(name), which says '\(word)'")
          }
        }
      }
    }
    #expect(count > 1000, "the names were not found")
    #expect(Self.parts(of: "isBehindTheLimit") == ["is", "behind", "the", "limit"])
  }

  /// Returns the words of which a name consists: each capital letter begins one.
  private static func parts(of name: String) -> [String] {
    name.matches(of: /[A-Z]?[a-z]+|[A-Z]+(?![a-z])/).map { $0.output.lowercased() }
  }

  @Test func docCommentsBeginWithTheirSubject() throws {
    var count = 0
    for module in try Source.modules() {
      for file in try Source.files(in: module) {
        var isInside = false
        for (number, line) in file.lines.enumerated() {
          let text = line.drop { $0 == " " }
          defer { isInside = text.hasPrefix("///") }
          guard text.hasPrefix("/// "), !isInside else { continue }
          count += 1
          let first = text.dropFirst(4).prefix { $0.isLetter }
          if Self.beginnings.contains(String(first)) {
            Issue.record("\(file.path):\(number + 1) begins with '\(first)'")
          }
        }
      }
    }
    #expect(count > 1000, "the doc comments were not found")
  }

  private func comments() throws -> [(file: String, line: Int, text: Substring)] {
    try Source.modules().flatMap { try Source.files(in: $0) }.flatMap { file in
      file.lines.enumerated().compactMap { number, line in
        line.firstRange(of: "//").map { (file.path, number + 1, line[$0.lowerBound...]) }
      }
    }
  }
}

extension Source {
  /// All identifiers of the code, without comments and strings.
  fileprivate var names: [String] {
    code.replacing(/"(\\.|[^"\\\n])*"/, with: "\"\"").matches(of: /[A-Za-z_]\w*/).map {
      String($0.output)
    }
  }
}
