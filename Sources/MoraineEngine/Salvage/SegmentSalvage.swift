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
          range: offset..<end, reason: "the records are missing", after: lastSequence,
          breaksBatch: unfinished != nil))
    }
  }
}

extension SegmentSalvage {
  /// The record at a place; nil when there is none that is whole.
  ///
  /// - Throws: `.newerFormat` for a sound one with something unknown.
  func record(at offset: Int, _ name: String) throws(StoreError) -> RecordHeader? {
    guard let length = length(at: offset) else { return nil }
    return try source.bytes.withBytes { (bytes) throws(StoreError) -> RecordHeader? in
      guard let base = bytes.baseAddress.map({ $0 + offset }), checksumMatches(base, length, offset)
      else {
        return nil
      }
      guard let header = RecordHeader.parse(base, length: length) else {
        throw StoreError(
          FormatError(newer: "a record uses an unknown feature", at: UInt64(offset)), file: name)
      }
      return isBehind(header) ? header : nil
    }
  }

  /// The first whole record behind a place.
  ///
  /// - Complexity: O(bytes): what does not look like a record has its checksum never computed.
  ///   Where values are full of what looks like long records, O(bytes · their length).
  func nextRecord(behind offset: Int, to end: Int) -> Int? {
    var place = aligned(offset + 1)
    return source.bytes.withUnsafeBytes { bytes in
      while place + RecordHeader.fixedLength <= end {
        defer { place += recordAlignment }
        guard let header = RecordHeader.candidate(in: bytes, at: place, before: end),
          isBehind(header), header.checksumMatches(in: bytes, at: place, seed: seed)
        else { continue }
        return place
      }
      return nil
    }
  }

  /// Records in a hole that are damaged, but say which key they are of. A sequence number between
  /// those around the hole is what tells them from other bytes.
  func damagedRecords(in range: Range<Int>, before: UInt64?) -> [Int] {
    var places: [Int] = []
    var (place, last) = (range.lowerBound, lastSequence)
    source.bytes.withUnsafeBytes { bytes in
      while place + RecordHeader.fixedLength <= range.upperBound {
        guard
          let header = RecordHeader.candidate(in: bytes, at: place, before: range.upperBound),
          header.sequence > last, header.sequence < (before ?? .max),
          header.sequence <= plan.sequences.highest,
          header.kind.isOperation
        else {
          place += recordAlignment
          continue
        }
        places.append(place)
        last = header.sequence
        place += aligned(header.length)
      }
    }
    return places
  }

  func isEmpty(_ range: Range<Int>) -> Bool { lastWritten(in: range) == range.lowerBound }

  /// Behind the last byte that is not zero.
  func lastWritten(in range: Range<Int>) -> Int {
    source.bytes[range].lastIndex { $0 != 0 }.map { $0 + 1 } ?? range.lowerBound
  }

  /// What no sequence number before this whole record reaches: a mark has that of what is before
  /// it.
  func firstSequence(from offset: Int) -> UInt64 {
    let header = source.header(at: offset)
    return header.kind.isOperation ? header.sequence : header.sequence + 1
  }

  func durableOffset(of offset: Int, _ header: RecordHeader) -> Int {
    source.bytes.withUnsafeBytes { bytes in
      let stored = UnsafeRawBufferPointer(
        rebasing: bytes[(offset + header.valueOffset)..<(offset + header.length)])
      do throws(FormatError) {
        return Int(clamping: try SyncMark(decoding: stored).durableOffset)
      } catch {
        // A mark that promises nothing that can be understood.
        return 0
      }
    }
  }

  /// What the length field says, when it can be true.
  private func length(at offset: Int) -> Int? {
    let end = min(limit, source.bytes.count)
    guard offset + RecordHeader.fixedLength <= end else { return nil }
    let length = source.bytes.withUnsafeBytes { RecordHeader.length(at: $0.baseAddress! + offset) }
    let longest = min(end - offset, Limits.recordLengthBytes)
    return length >= RecordHeader.fixedLength && length <= longest ? length : nil
  }

  private func checksumMatches(_ base: UnsafeRawPointer, _ length: Int, _ offset: Int) -> Bool {
    RecordHeader.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
      == RecordHeader.storedChecksum(at: base)
  }

  /// Numbers of puts and deletes rise, and are those that the segment can have; a mark has that of
  /// what is before it.
  private func isBehind(_ header: RecordHeader) -> Bool {
    guard header.kind.isOperation else {
      return header.sequence >= lastSequence || survivors.isEmpty
    }
    return header.sequence > lastSequence && header.sequence <= plan.sequences.highest
  }
}
