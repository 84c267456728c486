import MoraineFormat

/// A line of named values, as text or as a JSON object.
struct Fields {
  private var words: [String] = []
  private var object: JSONObject = [:]

  mutating func add(_ name: String, _ value: some JSONRepresentable) {
    words.append("\(name) \(value)")
    object.add(name, value)
  }

  /// Adds bytes; in JSON under another name if they are not UTF-8.
  mutating func add(_ name: String, bytes: [UInt8]) {
    words.append("\(name) \(Text.printable(bytes))")
    object.add(name, bytes: bytes)
  }

  func line(json: Bool) -> String { json ? object.json : words.joined(separator: "  ") }
}

extension Fields {
  /// Adds the fields of a sync mark or a footer.
  mutating func add(_ payload: [UInt8], of kind: RecordKind, in file: String) throws {
    if kind == .syncMark {
      let mark = try decoded(payload, file) { try SyncMark(decoding: $0) }
      add("durableOffset", mark.durableOffset)
      add("wallMilliseconds", mark.wallMilliseconds)
      add("digest", mark.digest.description)
    } else {
      let footer = try decoded(payload, file) { try SegmentFooter(decoding: $0) }
      add("recordCount", footer.recordCount)
      add("firstSequence", footer.firstSequence.rawValue)
      add("lastSequence", footer.lastSequence.rawValue)
      add("wallMilliseconds", footer.wallMilliseconds)
      add("digest", footer.digest.description)
    }
  }
}
