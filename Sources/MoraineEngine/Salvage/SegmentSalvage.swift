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
  let plan: SalvageWork.Plan
  /// Where records end: as others say, or where the file does.
  let limit: Int
  /// How far it is known to have been durable.
  private(set) var promise: Int

  private(set) var survivors: [Survivor] = []
  private(set) var holes: [Hole] = []
  /// What is missing at the end, where it may have been torn; it was not when something counts that
  /// comes behind the segment.
  private(set) var tail: Hole?
  /// Where a batch begins that has no end, among the survivors.
  private(set) var unfinished: Int?
  private(set) var lastSequence: UInt64
  private var batchCount = 0

  init(_ source: SalvageBytes, seed: Checksum, _ plan: SalvageWork.Plan) {
    self.source = source
    self.seed = seed
    self.plan = plan
    limit = plan.limit ?? source.bytes.count
    promise = plan.promise
    lastSequence = plan.sequences.lowest == 0 ? 0 : plan.sequences.lowest - 1
  }

  /// - Parameter first: where records begin.
  /// - Throws: `.newerFormat` for a sound record with something unknown.
  mutating func run(from first: Int) throws(StoreError) {
    var offset = first
    let end = min(limit, source.bytes.count)
    while offset < end {
      if let header = try record(at: offset, plan.name) {
        take(header, at: offset)
        offset += aligned(header.length)
        continue
      }
      let next = nextRecord(behind: offset, to: end)
      if next == nil, plan.limit == nil, isEmpty(offset..<end) { break }
      note(offset..<(next ?? end), before: next.map { firstSequence(from: $0) })
      offset = next ?? end
    }
    finish(offset)
  }

  private mutating func take(_ header: RecordHeader, at offset: Int) {
    // A mark's number says what was given before it, and nothing of what comes after it.
    if header.kind.isOperation { lastSequence = max(lastSequence, header.sequence) }
    switch header.kind {
    case .footer: break
    case .syncMark: promise = max(promise, durableOffset(of: offset, header))
    case .put, .delete:
      if header.batch == .alone || unfinished == nil { (unfinished, batchCount) = (nil, 0) }
      batchCount += 1
      if header.batch == .more, unfinished == nil { unfinished = survivors.count }
      if header.batch == .end {
        if header.batchCount != batchCount, !holes.isEmpty {
          holes[holes.count - 1].breaksBatch = true
        }
        unfinished = nil
      }
      survivors.append(Survivor(offset: offset, sequence: header.sequence))
    }
  }

  private mutating func note(_ range: Range<Int>, before: UInt64?) {
    let problem = source.problem(in: range)?.message
    holes.append(
      Hole(
        range: range, reason: problem ?? "damaged", after: lastSequence, before: before,
        breaksBatch: unfinished != nil, damaged: damagedRecords(in: range, before: before)))
    // The batch's end may have been in there: what comes behind it says nothing against it.
    if before != nil { unfinished = nil }
  }

  /// Whatever others say that there is must be there; what only the file can tell may be torn.
  private mutating func finish(_ offset: Int) {
    let known = plan.limit ?? max(promise, offset)
    if offset < known { extend(to: known, from: offset) }
    guard !plan.isSealed, var last = holes.last, last.before == nil,
      promise <= last.range.lowerBound
    else { return }
    holes.removeLast()
    let end = plan.limit ?? lastWritten(in: last.range)
    last.range = last.range.lowerBound..<max(last.range.lowerBound, end)
    tail = last
  }

  /// The file ends, or has nothing, before the place that others name.
  private mutating func extend(to end: Int, from offset: Int) {
    if let last = holes.last, last.range.upperBound == offset, last.before == nil {
      holes[holes.count - 1].range = last.range.lowerBound..<end
    } else {
      holes.append(
        Hole(
          range: offset..<end, reason: "nothing is there", after: lastSequence,
          breaksBatch: unfinished != nil))
    }
  }
}
