import MoraineFormat

extension Store {
  /// Where in each segment its live records lie, in the order of the log: a picture of what
  /// compaction has to do.
  ///
  /// - Parameter partCount: into how many parts a segment is divided; at least 1.
  /// - Throws: `.closed`, `.corrupted`, `.io`.
  /// - Complexity: O(bytes of the store). Nothing else runs on the store meanwhile.
  public func segmentLiveness(partCount: Int) async throws(StoreError) -> [SegmentLiveness] {
    precondition(partCount > 0, "a segment has at least one part")
    try await checkOpen()
    let segments = knownSegmentStatistics
    guard engine != nil else { return [] }
    try engine!.admitAll()
    let slots = Array(engine!.table.order)
    var result: [SegmentLiveness] = []
    for (slot, segment) in zip(slots, segments) {
      var shares = [Double](repeating: 0, count: partCount)
      let length = Double(max(segment.lengthBytes, 1))
      var cursor = LogCursor(slot: slot, keyspace: nil, asksAlways: true)
      while let found = try engine!.nextLive(&cursor) {
        let places = (found.lowerBound, found.upperBound)
        Self.spread(from: Double(places.0) / length, to: Double(places.1) / length, over: &shares)
      }
      result.append(SegmentLiveness(segment: segment, shares: shares.map { min($0, 1) }))
    }
    return result
  }

  /// Adds a range of the whole to the parts that it covers.
  private static func spread(from start: Double, to end: Double, over shares: inout [Double]) {
    let count = Double(shares.count)
    let (first, last) = (start * count, min(end * count, count))
    for part in Int(first)..<max(Int(first) + 1, Int(last.rounded(.up))) where part < shares.count {
      shares[part] += max(0, min(last, Double(part + 1)) - max(first, Double(part)))
    }
  }
}

extension EngineState {
  /// The bytes that the next live record takes.
  fileprivate mutating func nextLive(_ cursor: inout LogCursor) throws(StoreError) -> Range<Int>? {
    guard let (address, record) = try cursor.nextRecord(index, table) else { return nil }
    return address.offset..<(address.offset + aligned(record.header.length))
  }
}
