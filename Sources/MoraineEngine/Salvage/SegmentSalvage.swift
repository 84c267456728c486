import MoraineFormat

/// Finds every whole record of a segment, whatever lies between them.
///
/// Behind bytes that are none, every multiple of 4 is tried: a value cannot hold a valid record,
/// because it cannot foretell the segment's salt.
struct SegmentSalvage {
  /// A put or a delete that is whole.
  struct Survivor: Sendable {
    let offset: Int
    let sequence: UInt64
  }

  /// A part without a whole record.
  struct Hole: Sendable {
    var range: Range<Int>
    var reason: String
    /// The sequence number before it, and the one behind it.
    var after: UInt64
    var before: UInt64?
    var breaksBatch = false
    /// Where in it records begin that are damaged, and name a key.
    var damaged: [Int] = []
  }

  let source: SalvageBytes
  let seed: Checksum
  /// Where records end; for a segment that was not sealed, where the file does.
  let limit: Int
  let isSealed: Bool
  /// How far it is known to have been durable.
  private(set) var promise: Int

  private(set) var survivors: [Survivor] = []
  private(set) var holes: [Hole] = []
  /// What a torn write has left at the end.
  private(set) var torn: Hole?
  private(set) var lastSequence: UInt64 = 0
  /// Where the batch begins that has no end yet, among the survivors.
  private var batchStart: Int?
  private var batchCount = 0

  init(_ source: SalvageBytes, seed: Checksum, limit: Int?, promise: Int) {
    self.source = source
    self.seed = seed
    self.limit = limit ?? source.bytes.count
    isSealed = limit != nil
    self.promise = promise
  }

  /// - Parameter first: where records begin.
  /// - Throws: `.newerFormat` for a sound record with something unknown.
  mutating func run(from first: Int, _ name: String) throws(StoreError) {
    var offset = first
    let end = min(limit, source.bytes.count)
    while offset < end {
      if let header = try record(at: offset, name) {
        take(header, at: offset)
        offset += aligned(header.length)
        continue
      }
      let next = nextRecord(behind: offset, to: end)
      if next == nil, !isSealed, isEmpty(offset..<end) { break }
      note(offset..<(next ?? end), before: next.map { firstSequence(from: $0) })
      offset = next ?? end
    }
    finish()
  }

  private mutating func take(_ header: RecordHeader, at offset: Int) {
    lastSequence = header.sequence
    switch header.kind {
    // Neither comes within a batch: one that was begun is over.
    case .footer: batchStart = nil
    case .syncMark:
      batchStart = nil
      promise = max(promise, durableOffset(of: offset, header))
    case .put, .delete:
      if header.batch == .alone || batchStart == nil { (batchStart, batchCount) = (nil, 0) }
      batchCount += 1
      if header.batch == .more, batchStart == nil { batchStart = survivors.count }
      if header.batch == .end {
        if header.batchCount != batchCount, !holes.isEmpty {
          holes[holes.count - 1].breaksBatch = true
        }
        batchStart = nil
      }
      survivors.append(Survivor(offset: offset, sequence: header.sequence))
    }
  }

  private mutating func note(_ range: Range<Int>, before: UInt64?) {
    let problem = source.problem(in: range)?.message
    holes.append(
      Hole(
        range: range, reason: problem ?? "damaged", after: lastSequence, before: before,
        breaksBatch: batchStart != nil, damaged: damagedRecords(in: range, before: before)))
    // The batch's end may have been in there: what comes behind it says nothing against it.
    if before != nil { batchStart = nil }
  }

  /// What is behind the last whole record of a segment that nobody sealed was promised, or it was
  /// torn; then the batch that was being written did not happen.
  private mutating func finish() {
    if isSealed {
      // A file that is too short.
      let end = source.bytes.count
      if end < limit {
        if let last = holes.last, last.range.upperBound == end {
          holes[holes.count - 1].range = last.range.lowerBound..<limit
        } else {
          holes.append(
            Hole(range: end..<limit, reason: "the file ends here", after: lastSequence))
        }
      }
      return
    }
    if var last = holes.last, last.before == nil, promise <= last.range.lowerBound {
      holes.removeLast()
      last.range = last.range.lowerBound..<lastWritten(in: last.range)
      last.reason = "a torn write"
      torn = last
    }
    guard let batchStart, survivors[batchStart].offset >= promise else { return }
    let begin = survivors[batchStart].offset
    let end = torn?.range.upperBound ?? begin
    torn = Hole(
      range: begin..<max(begin, end), reason: "a batch without its end",
      after: batchStart == 0 ? 0 : survivors[batchStart - 1].sequence,
      damaged: survivors[batchStart...].map(\.offset))
    survivors.removeSubrange(batchStart...)
  }
}
