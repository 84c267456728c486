import MoraineFormat

/// Finds every whole record of a segment, whatever bytes lie between the records.
///
/// After bytes that are no record, every multiple of 4 is tried. A value cannot contain a valid
/// record, because a program cannot predict the segment's salt.
struct SegmentSalvage {
  /// A put or a delete that is whole.
  struct Survivor: Sendable {
    let offset: Int
    let sequence: UInt64
  }

  /// A part of the segment without a whole record.
  struct Hole: Sendable {
    var range: Range<Int>
    var reason: String
    /// The sequence numbers before and after the hole.
    var after: UInt64
    var before: UInt64?
    var breaksBatch = false
    /// Offsets of damaged records in the hole whose key can be read.
    var damaged: [Int] = []
  }

  let source: SalvageBytes
  let seed: Checksum
  let plan: SalvageWork.Plan
  /// Offset at which the records end, as other files state it; otherwise the length of the file.
  let limit: Int
  /// Whether sequence numbers need not rise: the segment is in the order of keys, or no file says
  /// that it is not.
  let isClustered: Bool
  /// Offset up to which the segment is known to have been durable.
  private(set) var promise: Int

  private(set) var survivors: [Survivor] = []
  private(set) var holes: [Hole] = []
  /// The hole at the end, where the end may have been torn. It was not torn when later records of
  /// the log count.
  private(set) var tail: Hole?
  /// Index of the survivor with which an unfinished batch begins.
  private(set) var unfinished: Int?
  private(set) var lastSequence: UInt64 = 0
  private var batchCount = 0

  init(_ source: SalvageBytes, _ head: SalvagedHeader, _ plan: SalvageWork.Plan) {
    self.source = source
    seed = head.seed
    self.plan = plan
    isClustered =
      head.header?.flags.contains(.clustered) ?? plan.entry?.flags.contains(.clustered) ?? true
    limit = plan.limit ?? source.bytes.count
    promise = plan.promise
    lastSequence = sequenceBefore
  }

  /// - Parameter first: offset of the first record.
  /// - Throws: `.newerFormat` for an undamaged record that uses something unknown.
  mutating func run(from first: Int) throws(StoreError) {
    assert(survivors.isEmpty && holes.isEmpty && tail == nil, "a segment is searched twice")
    var offset = first
    let end = min(limit, source.bytes.count)
    while offset < end {
      if let header = try record(at: offset, plan.name) {
        process(header, at: offset)
        offset += aligned(header.length)
        continue
      }
      let next = nextRecord(after: offset, to: end)
      if next == nil, plan.limit == nil, isEmpty(offset..<end) { break }
      addHole(offset..<(next ?? end), next: next)
      offset = next ?? end
    }
    finish(offset)
  }

  private mutating func process(_ header: RecordHeader, at offset: Int) {
    // A mark has the sequence number of the last operation before it, and says nothing about those
    // that follow.
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
      assert(
        survivors.last.map { last in
          last.offset < offset && (isClustered || last.sequence < header.sequence)
        } ?? true,
        "the records of a segment are out of order")
      survivors.append(Survivor(offset: offset, sequence: header.sequence))
    }
  }

  /// - Parameter next: the offset of the first record after the hole.
  private mutating func addHole(_ range: Range<Int>, next: Int?) {
    let afterAll = min(plan.sequences.highest, SequenceNumber.max.rawValue) + 1
    let before = next.map { isClustered ? afterAll : firstSequence(from: $0) }
    assert(!range.isEmpty, "a hole has no bytes")
    assert(
      holes.last.map { $0.range.upperBound <= range.lowerBound } ?? true, "two holes overlap")
    let problem = source.problem(in: range)?.message
    holes.append(
      Hole(
        range: range, reason: problem ?? "damaged", after: sequenceBeforeHole, before: before,
        breaksBatch: unfinished != nil, damaged: damagedRecords(in: range, before: before)))
    // The end of the batch may have been in the hole. So the records after the hole do not show
    // that the batch is unfinished.
    if before != nil { unfinished = nil }
  }

  /// The sequence number that precedes all records of a hole. In key order, a hole may contain any
  /// of the segment's records.
  private var sequenceBeforeHole: UInt64 { isClustered ? sequenceBefore : lastSequence }

  private var sequenceBefore: UInt64 {
    plan.sequences.lowest == 0 ? 0 : plan.sequences.lowest - 1
  }

  /// Completes the last hole. Bytes that the manifest, another segment or a sync mark counts must
  /// exist. Otherwise the end may have been torn, and the hole becomes ``tail``.
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

  /// Extends the last hole, or adds one, where the file ends or has no bytes before the offset that
  /// other files state.
  private mutating func extend(to end: Int, from offset: Int) {
    assert(offset < end, "a hole ends before it begins")
    if let last = holes.last, last.range.upperBound == offset, last.before == nil {
      holes[holes.count - 1].range = last.range.lowerBound..<end
    } else {
      holes.append(
        Hole(
          range: offset..<end, reason: "the records are missing", after: sequenceBeforeHole,
          breaksBatch: unfinished != nil))
    }
  }
}

extension SegmentSalvage {
  /// Returns the record at a place; nil when there is no whole record.
  ///
  /// - Throws: `.newerFormat` for an undamaged record that uses something unknown.
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
      return canFollow(header) ? header : nil
    }
  }

  /// Returns the place of the first whole record after a place.
  ///
  /// - Complexity: O(bytes): no checksum is computed for bytes that do not look like a record.
  ///   Where values are full of bytes that look like long records, O(bytes · their length).
  func nextRecord(after offset: Int, to end: Int) -> Int? {
    var place = aligned(offset + 1)
    return source.bytes.withUnsafeBytes { bytes in
      while place + RecordHeader.fixedLength <= end {
        defer { place += recordAlignment }
        guard let header = RecordHeader.candidate(in: bytes, at: place, before: end),
          canFollow(header), header.checksumMatches(in: bytes, at: place, seed: seed)
        else { continue }
        return place
      }
      return nil
    }
  }

  /// Returns the places of damaged records in a hole whose key can be read. A damaged record is
  /// recognized by its sequence number, which must lie between those around the hole.
  func damagedRecords(in range: Range<Int>, before: UInt64?) -> [Int] {
    var places: [Int] = []
    var (place, last) = (range.lowerBound, sequenceBeforeHole)
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
        if !isClustered { last = header.sequence }
        place += aligned(header.length)
      }
    }
    return places
  }

  func isEmpty(_ range: Range<Int>) -> Bool { lastWritten(in: range) == range.lowerBound }

  /// Returns the offset after the last byte that is not zero.
  func lastWritten(in range: Range<Int>) -> Int {
    source.bytes[range].lastIndex { $0 != 0 }.map { $0 + 1 } ?? range.lowerBound
  }

  /// Returns a number that is greater than all sequence numbers before this whole record. A mark
  /// has the number of the last operation before it.
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
        // A mark that cannot be decoded promises nothing.
        return 0
      }
    }
  }

  /// Returns the value of the length field, if it is possible.
  private func length(at offset: Int) -> Int? {
    let end = min(limit, source.bytes.count)
    guard offset + RecordHeader.fixedLength <= end else { return nil }
    let length = source.bytes.withUnsafeBytes { RecordHeader.length(at: $0.baseAddress! + offset) }
    let longest = min(end - offset, StoreLimits.recordLengthBytes)
    return length >= RecordHeader.fixedLength && length <= longest ? length : nil
  }

  private func checksumMatches(_ base: UnsafeRawPointer, _ length: Int, _ offset: Int) -> Bool {
    RecordHeader.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
      == RecordHeader.storedChecksum(at: base)
  }

  /// Returns whether a record can follow the last one. The sequence numbers of puts and deletes lie
  /// in the segment's range, and rise unless the segment is in the order of keys. A mark has the
  /// number of the last operation before it.
  private func canFollow(_ header: RecordHeader) -> Bool {
    guard header.kind.isOperation else {
      return header.sequence >= lastSequence || survivors.isEmpty
    }
    return header.sequence > sequenceBeforeHole && header.sequence <= plan.sequences.highest
  }
}

/// The fields of a segment's header that are needed to read the records. They can often be found
/// where the header is damaged.
struct SalvagedHeader: Sendable {
  let seed: Checksum
  /// Offset of the first record; the lowest possible offset when the header is damaged.
  let firstOffset: Int
  /// Offset of the first record as the header states it, if that offset is possible.
  let claimedOffset: Int?
  /// Nil when the dictionary cannot be recovered.
  let dictionary: [UInt8]?
  /// Nil when the header is damaged beyond repair.
  let header: SegmentHeader?
  /// Whether the header is undamaged.
  let isComplete: Bool

  /// - Parameter dictionaries: the dictionaries of other segments: compaction passes a dictionary
  ///   on.
  /// - Returns: nil when the header is damaged and cannot be derived from the records.
  /// - Throws: `.newerFormat`.
  init?(
    _ source: SalvageBytes, _ plan: SalvageWork.Plan, dictionaries: Set<[UInt8]>
  ) throws(StoreError) {
    let whole = try Self.decode(source.bytes, plan.name)
    if let header = whole ?? Self.repaired(source.bytes, plan) {
      guard !header.flags.contains(.encrypted) else {
        throw StoreError(
          .newerFormat,
          "the segment is encrypted, which this version cannot read; update this program",
          file: plan.name)
      }
      seed = header.checksumSeed
      firstOffset = header.headerLength
      claimedOffset = firstOffset
      dictionary = header.dictionary
      self.header = header
      isComplete = whole != nil
      return
    }
    let search = SeedSearch(source.bytes, plan)
    guard let seed = search.seed() else { return nil }
    self.seed = seed
    firstOffset = SegmentHeader.fixedLength
    claimedOffset = search.claimedOffset
    header = nil
    isComplete = false
    let rest = source.bytes.dropFirst(SegmentHeader.fixedLength)
    dictionary = dictionaries.first { rest.starts(with: $0) }
  }

  private static func decode(
    _ bytes: [UInt8], _ name: String
  ) throws(StoreError) -> SegmentHeader? {
    try bytes.withBytes { (raw) throws(StoreError) -> SegmentHeader? in
      do throws(FormatError) {
        return try SegmentHeader(decoding: raw)
      } catch {
        guard error.kind == .newer else { return nil }
        throw StoreError(error, file: name)
      }
    }
  }

  /// Repairs a header with a single wrong byte. The first record or the footer must confirm the
  /// result.
  private static func repaired(_ bytes: [UInt8], _ plan: SalvageWork.Plan) -> SegmentHeader? {
    let header = bytes.withUnsafeBytes { SegmentHeader(repairing: $0) }
    guard let header, header.number == plan.number else { return nil }
    let search = SeedSearch(bytes, plan)
    let places = [header.headerLength, search.end - SegmentFooter.recordLength]
    return places.contains { search.checksumMatches(at: $0, header.checksumSeed) } ? header : nil
  }
}
