import MoraineFormat
import MoraineStorage

/// An audit that reads all segments and compares them with the index, the manifest, and the figures
/// of the engine: each must agree with the log, and contain nothing else.
///
/// A later record must replace each record that is not live: the live record of its key, or a
/// delete that follows. The second case needs memory for each key that waits for its delete. Where
/// there are too many such keys, the audit checks a share of all keys at a time, and reads the log
/// once for each share.
struct LogAudit: ~Copyable {
  /// The totals of the records of one segment.
  private struct Sums {
    var view: SegmentView
    var putBytes: UInt64 = 0

    mutating func add(_ header: RecordHeader, hash: UInt64, isLive: Bool) {
      let size = UInt64(aligned(header.length))
      view.recordCount += 1
      view.count(header.sequence)
      switch header.kind.effect {
      case .sets: putBytes += size
      case .removes: view.deleteBytes += size
      case .none: assertionFailure("only records with a key are counted")
      }
      guard isLive else { return }
      view.gain(size, StateDigest.of(hash: hash, sequence: header.sequence))
    }
  }

  /// A put that is not live, and whose key has no live record.
  private struct Hidden {
    let sequence: UInt64
    /// Sequence number up to which the put's segment claims to contain nothing that deletes hide.
    let cleanedThrough: UInt64
  }

  /// Number of keys that are remembered at a time: 48 MiB or so.
  private static let hiddenLimit = 1 << 20
  private static let progressBytes = 64 << 10

  private(set) var report = VerificationReport()
  private let total: UInt64
  private let progress: (@Sendable (Store.Progress) -> Void)?
  /// Contradictions between the log and the data that was derived from it.
  private var contradictions: [StoreError] = []
  /// Marks and footers whose digest is not that of the records before them.
  private var wrongDigests: [StoreError] = []
  private var sums: [Int: Sums] = [:]
  private var keyspaces: [UInt16: KeyspaceFigures.Figures] = [:]
  private var liveCount = 0
  private var hidden: [UInt64: Hidden] = [:]
  /// The number of shares that the keys are divided into, and the share that is being checked.
  private var shares: (count: UInt64, number: UInt64) = (1, 0)
  private var lastSequence: UInt64 = 0
  private var digests = DigestCheck()
  private var reportedStep = 0

  init(totalBytes: UInt64, _ progress: (@Sendable (Store.Progress) -> Void)?) {
    total = totalBytes
    self.progress = progress
  }

  /// Reads everything. All pages of the index were validated.
  mutating func run(_ engine: inout EngineState) {
    let slots = engine.log.table.readingOrder
    // A compaction that is under way has copies of records that its inputs still contain.
    if engine.log.table.isRetiring { digests.stop() }
    for slot in slots {
      do throws(StoreError) {
        try read(slot, &engine)
      } catch {
        report.problems.append(error)
        // The digests of the marks after it would count as damage, too, because they lack records
        // of this segment.
        digests.stop()
      }
    }
    // Where a segment could not be read, missing records are a consequence of that.
    guard report.problems.isEmpty else {
      report.problems += wrongDigests
      return
    }
    do throws(StoreError) {
      checkHidden(engine)
      while shares.number + 1 < shares.count {
        shares.number += 1
        hidden = [:]
        lastSequence = 0
        for slot in slots { try follow(slot, &engine) }
        checkHidden(engine)
      }
    } catch {
      report.problems.append(error)
    }
    // While a compaction moves records, their figures are in two places.
    if !engine.log.table.isRetiring { compare(slots, engine) }
    // Digests are computed with the entries of the index, and a wrong index falsifies them.
    if contradictions.isEmpty { report.problems += wrongDigests }
    report.problems += contradictions
  }

  // MARK: Reading

  private mutating func read(_ slot: Int, _ engine: inout EngineState) throws(StoreError) {
    try engine.checkFile(of: slot)
    try engine.log.table.verifyHeader(slot, storeID: engine.log.manifest.storeID)
    let view = engine.log.table[slot]
    var empty = view
    empty.forgetFigures()
    empty.end = view.end
    sums[slot] = Sums(view: empty)
    let isClustered = engine.log.table.infos[slot].isClustered
    var units = UnitCheck(
      engine.log.table.fileName(slot), engine.log.table.isRetiring ? 0 : lastSequence,
      isClustered: isClustered)
    var repetitions = RepetitionCheck()
    var scanner = try engine.scanner(slot, from: view.firstOffset, length: view.end)
    while let record = try next(&scanner) {
      try units.process(record, engine.keyspaces)
      if isClustered, record.reference.header.kind.isOperation {
        repetitions.add(record.reference.header.sequence)
      }
      try process(record, slot, &engine)
      reportProgress(at: scanner.offset)
    }
    try units.end(at: view.end, isOpen: !engine.log.table.infos[slot].flags.contains(.sealed))
    if isClustered { try finish(&repetitions, slot, engine) }
    lastSequence = max(lastSequence, units.lastSequence)
    let sum = sums[slot]?.view
    report.recordCount += sum?.recordCount ?? 0
    report.checkedBytes += UInt64(view.end)
    progress?(Store.Progress(completedBytes: report.checkedBytes, totalBytes: total))
  }

  /// Checks that no sequence number occurs twice in a clustered segment, of which the check has
  /// the numbers. In other segments the numbers rise.
  private func finish(
    _ check: inout RepetitionCheck, _ slot: Int, _ engine: borrowing EngineState
  ) throws(StoreError) {
    let view = engine.log.table[slot]
    while check.endPass() {
      var scanner = try engine.scanner(slot, from: view.firstOffset, length: view.end)
      while let record = try next(&scanner) {
        let header = record.reference.header
        if header.kind.isOperation { check.add(header.sequence) }
      }
    }
    guard let repeated = check.repeated else { return }
    // The offset is known after the segment is read once more, which is done only here.
    var (scanner, count) = (try engine.scanner(slot, from: view.firstOffset, length: view.end), 0)
    while let record = try next(&scanner) {
      let header = record.reference.header
      guard header.kind.isOperation, header.sequence == repeated else { continue }
      count += 1
      guard count == 2 else { continue }
      throw .corrupted(
        "sequence \(repeated) occurs twice in a segment in key order", scanner.name,
        at: record.offset)
    }
  }

  private func next(
    _ scanner: inout SegmentScanner
  ) throws(StoreError) -> SegmentScanner.Record? {
    let place = scanner.offset
    switch try scanner.next() {
    case .end: return nil
    case .stop(let reason): throw .corrupted(reason, scanner.name, at: place)
    case .record(let record): return record
    }
  }

  private mutating func reportProgress(at offset: Int) {
    guard offset / Self.progressBytes != reportedStep else { return }
    reportedStep = offset / Self.progressBytes
    progress?(
      Store.Progress(completedBytes: report.checkedBytes + UInt64(offset), totalBytes: total))
  }

  private mutating func process(
    _ record: SegmentScanner.Record, _ slot: Int, _ engine: inout EngineState
  ) throws(StoreError) {
    let header = record.reference.header
    guard header.kind.isOperation else { return try processMark(record, slot, engine) }
    let address = Address(slot: slot, offset: record.offset)
    let hash = engine.hash(record.reference.key, header.keyspace)
    let size = UInt64(aligned(header.length))
    let isLive = header.kind.effect == .sets && engine.live.holds(address, hash, record.reference)
    sums[slot]?.add(header, hash: hash, isLive: isLive)
    digests.process(header, hash: hash, isLive: isLive)
    if header.kind.effect == .sets { checkValue(record.reference, address, engine) }
    if isLive {
      liveCount += 1
      keyspaces[header.keyspace, default: .init()].count += 1
      keyspaces[header.keyspace, default: .init()].liveBytes += size
    } else {
      try checkIsReplaced(record.reference, slot, hash, &engine)
    }
  }

  /// Compares a mark or a footer with the records before it.
  private mutating func processMark(
    _ record: SegmentScanner.Record, _ slot: Int, _ engine: borrowing EngineState
  ) throws(StoreError) {
    let name = engine.log.table.fileName(slot)
    let digest: StateDigest
    if record.reference.header.kind == .footer {
      let footer = try formatting(name) { () throws(FormatError) in
        try SegmentFooter(decoding: record.reference.stored)
      }
      if let view = sums[slot]?.view, !footer.counts(view) {
        report.problems.append(
          .corrupted("the footer does not match the segment's records", name, at: record.offset))
      }
      digest = footer.digest
    } else {
      digest = try formatting(name) { () throws(FormatError) in
        try SyncMark(decoding: record.reference.stored)
      }.digest
    }
    let sequence = record.reference.header.sequence
    // Compaction has dropped records from the log before this number.
    guard sequence > engine.log.manifest.compactedThrough.rawValue else { return }
    if !digests.allows(digest) {
      wrongDigests.append(
        .corrupted("the state digest does not match the records", name, at: record.offset))
    }
  }

  /// Values that are not live are decompressed too: a salvage may need them.
  private mutating func checkValue(
    _ record: RecordReference, _ address: Address, _ engine: borrowing EngineState
  ) {
    guard record.header.codec != .raw else { return }
    do throws(StoreError) {
      _ = try engine.log.table.value(of: record, at: address)
    } catch {
      report.problems.append(error)
    }
  }

  // MARK: Records that are not live

  private mutating func follow(_ slot: Int, _ engine: inout EngineState) throws(StoreError) {
    let view = engine.log.table[slot]
    var scanner = try engine.scanner(slot, from: view.firstOffset, length: view.end)
    while let record = try next(&scanner) {
      let header = record.reference.header
      guard header.kind.isOperation else { continue }
      let hash = engine.hash(record.reference.key, header.keyspace)
      guard isInShare(hash) else { continue }
      let address = Address(slot: slot, offset: record.offset)
      if header.kind.effect == .sets, engine.live.holds(address, hash, record.reference) {
        continue
      }
      try checkIsReplaced(record.reference, slot, hash, &engine)
    }
  }

  private func isInShare(_ hash: UInt64) -> Bool {
    hash >> 40 & (shares.count - 1) == shares.number
  }

  /// Finds the record that has replaced a record that is not live.
  ///
  /// - Throws: the error of a read that failed, which is no damage.
  private mutating func checkIsReplaced(
    _ record: RecordReference, _ slot: Int, _ hash: UInt64, _ engine: inout EngineState
  ) throws(StoreError) {
    guard isInShare(hash) else { return }
    let header = record.header
    let live: UInt64?
    do throws(StoreError) {
      live = try engine.found(record.key, header.keyspace)?.record.header.sequence
    } catch {
      // Without this answer, a put would seem to lack the delete that removes it.
      guard error.isOfBytes else { throw error }
      // The scan finds damage where it lies; the number of keys shows an entry that names no
      // record.
      return
    }
    if let live, live < header.sequence {
      return contradict(
        engine, "the index refers to record \(live), but record \(header.sequence) replaces it")
    }
    if header.kind.effect == .removes {
      guard let put = hidden.removeValue(forKey: hash) else { return }
      if header.sequence <= put.cleanedThrough {
        contradict(
          engine,
          "a segment cleaned through \(put.cleanedThrough) contains record \(put.sequence), "
            + "which delete \(header.sequence) removes")
      }
    } else if live == nil {
      let known = hidden[hash]
      hidden[hash] = Hidden(
        sequence: header.sequence,
        cleanedThrough: max(engine.log.table[slot].cleanedThrough, known?.cleanedThrough ?? 0))
      if shares.number == 0, hidden.count > Self.hiddenLimit { divide() }
    }
  }

  private mutating func divide() {
    shares.count *= 2
    hidden = hidden.filter { isInShare($0.key) }
  }

  private mutating func checkHidden(_ engine: borrowing EngineState) {
    guard let first = hidden.values.map(\.sequence).min() else { return }
    contradict(
      engine,
      "the index lacks \(hidden.count) live records, the first of them record \(first)")
  }

  private mutating func contradict(_ engine: borrowing EngineState, _ what: String) {
    // The first contradictions suffice: a forged page can cause thousands.
    guard contradictions.count < 16 else { return }
    contradictions.append(.indexDamaged(what, engine.checkpointNames.first))
  }

  // MARK: Figures

  private mutating func compare(_ slots: [Int], _ engine: borrowing EngineState) {
    compareFigures(slots, engine)
    let entries = engine.log.manifest.entriesByNumber
    for slot in slots {
      guard let sum = sums[slot], let entry = entries[engine.log.table.infos[slot].number]
      else { continue }
      compare(sum, entry, engine)
    }
  }

  private mutating func compareFigures(_ slots: [Int], _ engine: borrowing EngineState) {
    var (liveBytes, digest) = (UInt64(0), StateDigest())
    for slot in slots {
      guard let sum = sums[slot] else { continue }
      liveBytes += sum.view.liveBytes
      digest.add(sum.view.digest)
      let wrong = sum.view.differences(from: engine.log.table[slot])
      if !wrong.isEmpty {
        contradict(
          engine,
          "the index does not match \(engine.log.table.fileName(slot)) in the "
            + wrong.joined(separator: ", "))
      }
    }
    compareTrees(engine)
    guard contradictions.isEmpty else { return }
    if liveCount != engine.live.count {
      contradict(
        engine,
        "the log has \(liveCount) live records, but the index has \(engine.live.count) keys")
    } else if digest != engine.live.digest {
      contradict(engine, "the state digest does not match the live records")
    } else if liveBytes != engine.live.bytes {
      contradict(
        engine, "the log has \(liveBytes) live bytes, but the index counts \(engine.live.bytes)")
    } else if engine.live.keyspaces.areCounted {
      let listed = engine.keyspaces.listedIDs
      for id in listed where engine.live.keyspaces[id] != keyspaces[id] ?? .init() {
        contradict(engine, "the figures of keyspace \(id) do not match its live records")
      }
    }
    if engine.log.lastSequence < lastSequence {
      contradict(engine, "the log has records after the store's last, \(engine.log.lastSequence)")
    }
  }

  /// Checks that the keys of each tree rise, that its leaves say what tied keys share, and that its
  /// branches count its entries.
  private mutating func compareTrees(_ engine: borrowing EngineState) {
    for id in engine.live.trees.ordered.numbers {
      let root = engine.live.trees.root(id)
      let addresses = engine.live.trees.addresses(root)
      if addresses.count != root.count
        || (root.hasPage
          && engine.live.trees.rank(engine.live.trees.end(root)) != addresses.count)
      {
        contradict(engine, "the tree of keyspace \(id) counts its entries wrongly")
      }
      if root.hasPage { compareKeys(engine.live.trees.start(root), id, engine) }
    }
  }

  private mutating func compareKeys(
    _ start: TreeCursor, _ id: UInt16, _ engine: borrowing EngineState
  ) {
    var (cursor, last) = (start, Key?.none)
    while let address = engine.live.trees.next(&cursor) {
      do throws(StoreError) {
        let key = Key([UInt8](try engine.log.table.record(at: address).key))
        if let last, last >= key {
          contradict(engine, "the keys of keyspace \(id) are not in their order")
        } else if let last,
          !engine.live.trees.leaf(cursor.leaf).describes(key, after: last, cursor.position - 1)
        {
          contradict(engine, "the tree of keyspace \(id) describes other keys than the log has")
        }
        last = key
      } catch {
        // The next key cannot be compared with the one that could not be read.
        last = nil
        // The scan finds damage where it lies.
        if !error.isOfBytes { return report.problems.append(error) }
      }
    }
  }

  /// Compares a segment with its manifest entry. The entry's `liveBytes` are of the moment at which
  /// it was written: nothing becomes live again, so the segment has no more now. The entry of a
  /// segment that compaction wrote may be of a moment at which not all records had been moved to
  /// the segment. With an index that contradicts the log, it is not known which records are live.
  private mutating func compare(
    _ sum: Sums, _ entry: Manifest.Segment, _ engine: borrowing EngineState
  ) {
    guard entry.isSealed else { return }
    let live = sum.view.liveBytes
    let isCurrent =
      engine.log.manifest.lastSequence.rawValue == engine.log.lastSequence
      && engine.log.manifest.isClean
    let isPossible =
      entry.liveBytes <= sum.putBytes
      && (!contradictions.isEmpty || entry.flags.contains(.compacted)
        || (isCurrent ? entry.liveBytes == live : entry.liveBytes >= live))
    if !sum.view.agrees(with: entry) || entry.lengthBytes != UInt64(sum.view.end) || !isPossible {
      report.problems.append(
        .corrupted(
          "the entry of segment \(entry.number) does not match that segment",
          Manifest.fileName,
          at: Manifest.fixedLength))
    }
  }
}

extension StoreError {
  /// Whether bytes that were read are wrong or unknown. Other errors say nothing about the bytes.
  fileprivate var isOfBytes: Bool { code == .corrupted || code == .newerFormat }
}

extension SegmentView {
  /// Returns the names of the figures that differ.
  fileprivate func differences(from other: SegmentView) -> [String] {
    var result: [String] = []
    if recordCount != other.recordCount { result.append("number of records") }
    if firstSequence != other.firstSequence { result.append("first sequence number") }
    if lastSequence != other.lastSequence { result.append("last sequence number") }
    if liveBytes != other.liveBytes { result.append("number of live bytes") }
    if deleteBytes != other.deleteBytes { result.append("number of bytes of deletes") }
    if digest != other.digest { result.append("digest of live records") }
    return result
  }
}

/// A check of the digests in marks and footers, which an opening without an index checkpoint makes
/// while it replays the log.
///
/// It follows the state of the store through the log, and remembers only keys whose present record
/// is not the last one. When there are too many such keys, it ends, and allows every later digest.
private struct DigestCheck {
  /// Number of keys that are remembered: 48 MiB or so.
  private static let keyLimit = 1 << 20

  private var digest = StateDigest()
  /// Sequence numbers of the present records that a later record replaces, by the hash of the key.
  private var replaced: [UInt64: UInt64] = [:]
  private var hasStopped = false

  mutating func process(_ header: RecordHeader, hash: UInt64, isLive: Bool) {
    if hasStopped { return }
    if let old = replaced.removeValue(forKey: hash) {
      digest.remove(.of(hash: hash, sequence: old))
    }
    guard header.kind.effect == .sets else { return }
    digest.add(.of(hash: hash, sequence: header.sequence))
    if isLive { return }
    replaced[hash] = header.sequence
    if replaced.count > Self.keyLimit { stop() }
  }

  mutating func stop() {
    hasStopped = true
    replaced = [:]
  }

  func allows(_ other: StateDigest) -> Bool { hasStopped || other == digest }
}

/// A check of the order of a segment's records, whatever their keys: sequence numbers rise, batches
/// are whole, marks and keyspaces are possible. In a clustered segment, sequence numbers are above
/// those of the segments before; ``RepetitionCheck`` checks that each occurs once.
private struct UnitCheck {
  let name: String
  var lastSequence: UInt64
  private let sequenceBefore: UInt64
  private let isClustered: Bool
  private var batchCount = 0

  init(_ name: String, _ lastSequence: UInt64, isClustered: Bool) {
    self.name = name
    self.lastSequence = lastSequence
    sequenceBefore = lastSequence
    self.isClustered = isClustered
  }

  mutating func process(
    _ record: SegmentScanner.Record, _ keyspaces: KeyspaceTable
  ) throws(StoreError) {
    let header = record.reference.header
    func damaged(_ what: String) -> StoreError { .corrupted(what, name, at: record.offset) }
    guard header.kind.isOperation else {
      guard batchCount == 0 else {
        throw damaged("incomplete batch: a mark precedes its last record")
      }
      guard header.sequence >= lastSequence else {
        throw damaged("a mark has sequence \(header.sequence), below the previous \(lastSequence)")
      }
      return
    }
    let floor = isClustered ? sequenceBefore : lastSequence
    guard header.sequence > floor else {
      throw damaged("sequence \(header.sequence) is not above the previous \(floor)")
    }
    guard !isClustered || header.batch == .alone else {
      throw damaged("a segment in key order contains a batch")
    }
    guard batchCount == 0 || (header.batch != .alone && header.sequence == lastSequence + 1) else {
      throw damaged("incomplete batch: another operation precedes its last record")
    }
    guard keyspaces.contains(header.keyspace) else {
      throw damaged("the manifest does not list keyspace \(header.keyspace)")
    }
    lastSequence = max(lastSequence, header.sequence)
    batchCount += 1
    if header.batch == .more { return }
    guard header.batch == .alone || header.batchCount == batchCount else {
      throw damaged(
        "a batch has \(batchCount) records, but its last record counts \(header.batchCount)")
    }
    batchCount = 0
  }

  func end(at place: Int, isOpen: Bool) throws(StoreError) {
    guard batchCount == 0 || isOpen else {
      throw .corrupted("incomplete batch: its last record is missing", name, at: place)
    }
  }
}

/// A check that no number occurs twice, in bounded memory: a pass holds the lowest numbers that no
/// earlier pass has checked. The caller adds all numbers again in each pass.
struct RepetitionCheck {
  /// A number that occurs twice; nil when none was found.
  private(set) var repeated: UInt64?
  private let limit: Int
  private var numbers: [UInt64] = []
  /// Numbers up to this one were checked in earlier passes.
  private var checkedThrough: UInt64?
  /// Numbers above this one are left to later passes.
  private var ceiling = UInt64.max

  /// - Parameter limit: number of the lowest numbers that a pass holds, at least 1. At most twice
  ///   as many are in memory: 32 MiB.
  init(limit: Int = 1 << 21) {
    assert(limit > 0, "a pass makes progress")
    self.limit = limit
  }

  mutating func add(_ number: UInt64) {
    guard repeated == nil, number <= ceiling else { return }
    if let checkedThrough, number <= checkedThrough { return }
    numbers.append(number)
    guard numbers.count == 2 * limit else { return }
    sort()
    ceiling = numbers[limit - 1]
    numbers.removeLast(limit)
  }

  /// Ends a pass.
  ///
  /// - Returns: whether another pass is needed.
  mutating func endPass() -> Bool {
    sort()
    guard repeated == nil, ceiling < .max else { return false }
    (checkedThrough, ceiling) = (ceiling, .max)
    numbers.removeAll(keepingCapacity: true)
    return true
  }

  private mutating func sort() {
    guard repeated == nil else { return }
    numbers.sort()
    repeated = zip(numbers, numbers.dropFirst()).first { $0 == $1 }?.0
  }
}
