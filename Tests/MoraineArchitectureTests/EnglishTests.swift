import Testing

/// Habits of language that made the comments hard to read, as far as a machine can see them.
@Suite struct EnglishTests {
  /// Words for which the comments have a plainer one: after, again, the caller, another process,
  /// while it runs.
  private static let words = ["behind", "anew", "whoever", "nobody", "somebody", "meanwhile"]
  /// A doc comment that begins so has no subject.
  private static let beginnings = ["Of", "That", "Also", "As"]

  @Test func commentsUsePlainWords() throws {
    for (file, line, text) in try comments() {
      let used = Set(text.lowercased().split(whereSeparator: { !$0.isLetter }).map(String.init))
      for word in Self.words where used.contains(word) {
        Issue.record("\(file):\(line) says '\(word)'")
      }
    }
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
