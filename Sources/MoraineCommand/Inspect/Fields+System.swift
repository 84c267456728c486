import MoraineFormat

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
