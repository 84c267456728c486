import MoraineFormat
import MoraineStorage

/// The thread, the pacer and the report of one compaction. Only the actor uses it.
final class CompactionWork {
  let thread = SerialQueue(.background)
  var pacer: CompactionPacer
  var report = CompactionReport()
  /// The part of the live bytes that was left of segments that were rewritten for the first time.
  private(set) var shrinkage = 1.0
  /// Whether the compaction ended in a pause, because its task was cancelled.
  var isCancelled = false
  /// Whether the last search found no dictionary that helps. The next search then costs less.
  var hasFoundNothing = false
  /// Slots of segments that the disk could not read. They are left out until this compaction ends.
  private(set) var unreadable: Set<Int> = []
  /// The first error of reading one of them.
  private(set) var readError: StoreError?

  /// Offset before which every record of an output begins.
  let outputLimitBytes: Int

  init(pacer: CompactionPacer, outputLimitBytes: Int = StoreLimits.recordOffsetBytes) {
    precondition(
      outputLimitBytes <= StoreLimits.recordOffsetBytes,
      "an address cannot hold the end of an output")
    self.pacer = pacer
    self.outputLimitBytes = outputLimitBytes
  }

  /// Leaves segments out that the disk could not read.
  func leaveOut(_ slots: [Int], because error: StoreError) {
    unreadable.formUnion(slots)
    readError = readError ?? error
  }

  /// Whether the steps so far have freed more space than they took.
  var hasFreedSpace: Bool { report.inputBytes > report.outputBytes }

  /// Adds a step to the report.
  ///
  /// - Returns: the report of this step alone.
  func count(
    _ inputs: ArraySlice<CompactionInput>, _ output: CompactionOutput
  ) -> CompactionReport {
    assert(!inputs.isEmpty, "a step of a compaction rewrote no segment")
    let outputBytes = output.isEmpty ? 0 : output.lengthBytes
    var step = CompactionReport()
    step.inputSegmentCount = inputs.count
    step.inputBytes = inputs.reduce(0) { $0 + UInt64($1.end) }
    step.outputBytes = UInt64(outputBytes)
    report.add(step)
    let new = inputs.reduce(0) { $0 + ($1.isCompacted ? 0 : $1.liveBytes) }
    let old = inputs.reduce(0) { $0 + ($1.isCompacted ? $1.liveBytes : 0) }
    if new > 0 { shrinkage = min(1, max(0.05, Double(outputBytes - old) / Double(new))) }
    return step
  }
}

extension CompactionReport {
  mutating func add(_ step: CompactionReport) {
    inputSegmentCount += step.inputSegmentCount
    inputBytes += step.inputBytes
    outputBytes += step.outputBytes
  }
}

/// Decides how long a compaction pauses. Pure, except for the clock: the same figures lead to the
/// same pauses.
///
/// Without writers, a compaction does not pause. Beside writers it reads two bytes for each byte
/// that they append: compaction at the default limit reads 1.72 bytes for each (see
/// ``CompactionPolicy``), so this suffices, and writers have the rest of the disk's bandwidth. With
/// more garbage than the policy allows, it does not pause.
struct CompactionPacer {
  private static let leastBytesPerSecond = 32.0 * 1_048_576
  private static let quietBytesPerSecond = 1_048_576.0
  /// Length of the longest sleep, in nanoseconds: a caller that ends the compaction waits no
  /// longer.
  static let longestPause: UInt64 = 100_000_000
  /// Length of the longest pause, in nanoseconds: about a century. More does not fit an integer.
  private static let longestDebt = 3e18

  private let limitBytesPerSecond: Double?
  private let isUrgent: Bool
  private var last: (nanoseconds: UInt64, appendedBytes: UInt64)?
  /// Time by which reading was ahead of the limit at the last call, in nanoseconds.
  private var debt = 0.0
  private var lastOfLimit: UInt64?

  init(policy: CompactionPolicy, isUrgent: Bool) {
    limitBytesPerSecond = policy.rateLimitBytesPerSecond.map { Double(max(1, $0)) }
    self.isUrgent = isUrgent
  }

  /// Returns the length of the pause after a number of bytes was read, in nanoseconds.
  mutating func pause(
    afterReading bytes: Int, appendedBytes: UInt64, isOverLimit: Bool,
    now: UInt64 = SystemClock.monotonicNanoseconds()
  ) -> UInt64 {
    if limitBytesPerSecond != nil { return pauseOfLimit(afterReading: bytes, now: now) }
    defer { last = (now, appendedBytes) }
    guard let last else { return 0 }
    let elapsed = Double(max(1, now - last.nanoseconds))
    let appended = Double(appendedBytes - last.appendedBytes) / elapsed * 1e9
    guard let rate = rate(appendedPerSecond: appended, isOverLimit: isOverLimit) else { return 0 }
    let wanted = Double(bytes) / rate * 1e9
    return wanted <= elapsed ? 0 : min(Self.longestPause, UInt64(wanted - elapsed))
  }

  /// Returns the length of the pause that keeps reading within the limit, in nanoseconds; 0 without
  /// a limit.
  ///
  /// The next pause makes up for a pause that was too short, so the limit holds whatever its value
  /// is, and whatever else takes time.
  mutating func pauseOfLimit(
    afterReading bytes: Int, now: UInt64 = SystemClock.monotonicNanoseconds()
  ) -> UInt64 {
    guard let limitBytesPerSecond else { return 0 }
    assert(bytes >= 0, "a compaction has read less than nothing")
    let elapsed = now - (lastOfLimit ?? now)
    lastOfLimit = now
    debt = max(0, debt - Double(elapsed)) + Double(bytes) / limitBytesPerSecond * 1e9
    return UInt64(min(debt, Self.longestDebt))
  }

  private func rate(appendedPerSecond: Double, isOverLimit: Bool) -> Double? {
    if isUrgent || isOverLimit || appendedPerSecond < Self.quietBytesPerSecond { return nil }
    return max(Self.leastBytesPerSecond, 2 * appendedPerSecond)
  }
}

/// A sealed segment that a compaction rewrites.
struct CompactionInput: Sendable {
  let slot: Int
  let name: String
  let mapping: (any FileMapping)?
  let firstOffset: Int
  let end: Int
  let seed: Checksum
  let dictionaryLength: Int
  let liveBytes: Int
  let isCompacted: Bool
  /// Whether nothing in the segment is live or must be kept: it is removed without being read.
  let isDead: Bool
}

/// A record that the compaction copies if it is needed.
struct CompactionCandidate {
  let address: Address
  let length: Int
  let hash: UInt64
  let sequence: UInt64
  let keyspace: UInt16
  let isDelete: Bool
  /// Whether the input is mapped: then the record stays in memory.
  let isMapped: Bool
  /// Whether the keyspace was ordered when the compaction began.
  let isOrdered: Bool
  /// Time of expiry in milliseconds since 1970; `UInt64.max` for a record that does not expire.
  let expiryMilliseconds: UInt64
  /// The key of a record, where the input is not mapped and the keyspace was ordered when the
  /// compaction began; nil for the others.
  let orderedKey: [UInt8]?
}

/// Reads the inputs of a compaction in order, and verifies every checksum. One thread uses it at a
/// time.
///
/// Safety of `@unchecked Sendable`: one compaction passes the reader from call to call, and each
/// call waits until the one before it has returned.
final class CompactionReader: @unchecked Sendable {
  /// Number of records after which a chunk ends.
  static let chunkRecords = 16_384
  /// Number of records that are looked up in one turn on the actor. A writer waits some 100 µs for
  /// such a turn. Shorter turns would come so often that of a thousand puts more than one waits.
  static let turnRecords = 4096
  /// The same where looking a record up may read keys from a file.
  static let turnOfReadKeys = 256
  /// Number of bytes after which a chunk ends. For each chunk the work passes from the thread to
  /// the actor and back, and where writers keep the processors busy, each change of threads may
  /// take milliseconds.
  private static let chunkBytes = 2 << 20
  /// The segments to read; none after ``release()``.
  private(set) var inputs: [CompactionInput]
  private let directory: any StorageDirectory
  private let hashKey: HashKey
  private let ordered: OrderedKeyspaces
  private let sampling: DictionarySampling?
  private var next = 0
  private var scanner: SegmentScanner?
  private var readBytes = 0
  /// Decompresses the values of the segment that the last chunk came from.
  private(set) var values = SegmentValues(dictionary: [], name: "", seed: Checksum())

  /// - Parameter sampling: selects the puts that are read; nil for all records.
  init(
    _ inputs: [CompactionInput], _ directory: any StorageDirectory, _ hashKey: HashKey,
    _ ordered: OrderedKeyspaces, sampling: DictionarySampling? = nil
  ) {
    assert(!inputs.isEmpty, "a compaction has no inputs")
    assert(Set(inputs.map(\.slot)).count == inputs.count, "a segment is an input twice")
    self.inputs = inputs
    self.directory = directory
    self.hashKey = hashKey
    self.ordered = ordered
    self.sampling = sampling
  }

  /// Returns the next puts and deletes, all of one segment; nil after the last segment. With a
  /// sampling, a chunk may be empty.
  ///
  /// - Throws: `.corrupted` when a record is not what was written, `.io`.
  func chunk() throws(StoreError) -> [CompactionCandidate]? {
    while next < inputs.count {
      if inputs[next].isDead {
        next += 1
        continue
      }
      if scanner == nil { scanner = try open(inputs[next]) }
      let candidates = try candidates(of: inputs[next].slot)
      if !candidates.isEmpty { return candidates }
      if let scanner, scanner.offset < scanner.source.length {
        if sampling != nil { return [] }
      } else {
        scanner = nil
        next += 1
      }
    }
    return nil
  }

  /// Ends the use of the inputs. Where their files were removed, the system frees the space now,
  /// which takes milliseconds: so a thread of the pool calls this function.
  func release() {
    inputs = []
    scanner = nil
    values = SegmentValues(dictionary: [], name: "", seed: Checksum())
  }

  /// Returns the number of bytes that were read since the last call.
  func takeReadBytes() -> Int {
    defer { readBytes = 0 }
    return readBytes
  }

  private func candidates(of slot: Int) throws(StoreError) -> [CompactionCandidate] {
    var result: [CompactionCandidate] = []
    guard var scanner else { return result }
    let start = scanner.offset
    defer {
      readBytes += scanner.offset - start
      self.scanner = scanner
    }
    let most = sampling == nil ? Self.chunkRecords : Self.turnRecords
    while result.count < most, scanner.offset - start < Self.chunkBytes {
      let place = scanner.offset
      switch try scanner.next() {
      case .end: return result
      case .stop(let reason): throw .corrupted(reason, scanner.name, at: place)
      case .record(let record):
        let header = record.reference.header
        guard header.kind.isOperation else { continue }
        if let sampling, !sampling.takes(header) { continue }
        // A mapped input keeps the key itself.
        let isMapped = inputs[next].mapping != nil
        let isOrdered = ordered.contains(header.keyspace)
        result.append(
          CompactionCandidate(
            address: Address(slot: slot, offset: record.offset), length: header.length,
            hash: KeyHash.hash(record.reference.key, keyspace: header.keyspace, with: hashKey),
            sequence: header.sequence, keyspace: header.keyspace,
            isDelete: header.kind.effect == .removes, isMapped: isMapped, isOrdered: isOrdered,
            expiryMilliseconds: record.reference.expiryMilliseconds ?? .max,
            orderedKey: !isMapped && isOrdered ? [UInt8](record.reference.key) : nil))
      }
    }
    return result
  }

  private func open(_ input: CompactionInput) throws(StoreError) -> SegmentScanner {
    assert(input.firstOffset <= input.end, "an input ends inside its header")
    assert(
      input.firstOffset.isMultiple(of: recordAlignment), "an input begins at an unaligned offset")
    let source = try Self.source(input, directory)
    values = SegmentValues(
      dictionary: try Self.dictionary(input, source), name: input.name, seed: input.seed)
    return SegmentScanner(
      source: source, name: input.name, seed: input.seed, offset: input.firstOffset)
  }

  /// Returns the dictionary of an input.
  static func dictionary(
    of input: CompactionInput, _ directory: any StorageDirectory
  ) throws(StoreError) -> [UInt8] {
    try dictionary(input, source(input, directory))
  }

  /// Verifies the dictionary's checksum again: a copy made with a damaged dictionary would have a
  /// right checksum.
  private static func dictionary(
    _ input: CompactionInput, _ source: ByteSource
  ) throws(StoreError) -> [UInt8] {
    if input.dictionaryLength == 0 { return [] }
    return try SegmentFile.header(source, input.name).dictionary
  }

  private static func source(
    _ input: CompactionInput, _ directory: any StorageDirectory
  ) throws(StoreError) -> ByteSource {
    let file = try storing { () throws(StorageError) in
      try directory.openFile(input.name, .read)
    }
    guard let file else { throw .corrupted("the file is missing", input.name, at: 0) }
    return ByteSource(file: file, name: input.name, length: input.end, mapping: input.mapping)
  }

  /// Returns a record of the last chunk. Its checksum was verified when the chunk was read.
  ///
  /// - Throws: `.corrupted` when the file now contains other bytes; `.io`.
  func record(_ candidate: CompactionCandidate) throws(StoreError) -> RecordReference {
    guard let source = scanner?.source else { fatalError("no input is open") }
    assert(
      candidate.address.slot == inputs[next].slot, "a record is not of the segment read last")
    assert(
      candidate.address.offset + candidate.length <= source.length,
      "a record ends after its segment")
    let base = try source.bytes(at: candidate.address.offset, count: candidate.length)
    // Without a mapping, these bytes may have been read from the file again.
    if !candidate.isMapped {
      try values.verify(base, length: candidate.length, at: candidate.address.offset)
    }
    guard let header = RecordHeader.parse(base, length: candidate.length) else {
      throw values.changed(at: candidate.address.offset)
    }
    return RecordReference(base: base, header: header)
  }
}

/// The segment that a compaction writes. One thread uses it at a time.
///
/// Safety of `@unchecked Sendable`: the same argument as for ``CompactionReader``.
final class CompactionOutput: @unchecked Sendable {
  private static let flushBytes = 512 << 10
  private(set) var header: SegmentHeader
  private(set) var relocations: [Relocation] = []
  private(set) var recordCount: UInt64 = 0
  private(set) var firstSequence: UInt64 = 0
  private(set) var lastSequence: UInt64 = 0
  private(set) var deleteBytes = 0
  /// Number of bytes of the copied puts, with their padding.
  private(set) var liveBytes: UInt64 = 0
  private(set) var earliestExpiry = UInt64.max
  /// The copied records that expire.
  private(set) var expiries = ExpiryRun()
  /// Sequence number of the last delete that was left out: the feed of changes no longer contains
  /// it.
  private(set) var lastDroppedDelete: UInt64 = 0
  /// The records that were selected as live.
  private(set) var selection = LiveSelection()
  private(set) var file: (any StorageFile)?
  private let directory: any StorageDirectory
  private let seed: Checksum
  private let limitBytes: Int
  private var recoder = ValueRecoder(.none)
  private var waiting = KeyOrderBuffer()
  private var buffer: [UInt8] = []
  private var written = 0

  /// - Parameter limitBytes: offset before which every record begins.
  init(_ header: SegmentHeader, _ directory: any StorageDirectory, limitBytes: Int) {
    self.header = header
    self.limitBytes = limitBytes
    self.directory = directory
    seed = header.checksumSeed
  }

  var name: String { header.number.fileName }
  var lengthBytes: Int { written + buffer.count }
  var isEmpty: Bool { recordCount == 0 }
  /// Returns the expected length of the output with the records that wait for their turn, in bytes.
  ///
  /// - Parameter shrinkage: the part of their length that a dictionary leaves of these records.
  func expectedBytes(shrinkage: Double) -> Int {
    assert((0...1).contains(shrinkage), "records shrink to less than nothing, or grow")
    return lengthBytes + Int(Double(waiting.waitingBytes) * shrinkage)
  }

  /// Sets the dictionary that the values share. Called before the first record is appended.
  func share(_ dictionary: SharedDictionary) {
    precondition(
      isEmpty && waiting.isEmpty, "the dictionary must be set before the first record")
    assert(header.dictionary.isEmpty, "an output gets a second dictionary")
    header.dictionary = dictionary.bytes
    if !dictionary.bytes.isEmpty { header.flags.insert(.hasDictionary) }
    recoder = ValueRecoder(dictionary)
  }

  /// States in the header up to which number no delete hides a record of the segment. Called
  /// before the first record is appended.
  func stateCleaning(through sequence: UInt64) {
    precondition(isEmpty && waiting.isEmpty, "a header is changed after the first record")
    assert(header.predecessor.number == 0, "an output continues another segment")
    header.predecessor.lastSequence = SequenceNumber(rawValue: sequence)
  }

  /// Copies the records that are to be kept, and counts them.
  ///
  /// - Throws: as ``append(_:_:_:)``.
  func add(
    _ candidates: [CompactionCandidate], _ isKept: [Bool], from reader: CompactionReader
  ) throws(StoreError) {
    assert(candidates.count == isKept.count, "a record is neither kept nor left out")
    for (candidate, isKept) in zip(candidates, isKept) {
      if isKept {
        if !candidate.isDelete { selection.add(candidate) }
        try add(try reader.record(candidate), candidate, reader.values)
      } else if candidate.isDelete {
        lastDroppedDelete = max(lastDroppedDelete, candidate.sequence)
      }
    }
  }

  /// Copies a record, or keeps a record of an ordered keyspace until ``writeWaiting(_:)``.
  ///
  /// - Throws: as ``append(_:_:_:)``.
  private func add(
    _ record: RecordReference, _ candidate: CompactionCandidate, _ values: SegmentValues
  ) throws(StoreError) {
    guard candidate.isOrdered else { return try append(record, candidate, values) }
    assert(header.flags.contains(.clustered), "an output does not say that it is in key order")
    if !waiting.hasRoom(for: candidate) { while try writeWaiting(.max) > 0 {} }
    waiting.add(record, candidate, values)
  }

  /// Copies the next records that wait, in the order of their keys.
  ///
  /// - Returns: the number of bytes that were copied; 0 when no record is left.
  /// - Throws: `.corrupted` when a record is not what was read before; as ``append(_:_:_:)``.
  func writeWaiting(_ count: Int) throws(StoreError) -> Int {
    let before = waiting.waitingBytes
    var left = count
    while left > 0,
      try waiting.writeNext({ (record, candidate, values) throws(StoreError) in
        try append(record, candidate, values)
      })
    {
      left -= 1
    }
    return before - waiting.waitingBytes
  }

  /// Copies a record with its sequence number, key and value to its new offset.
  ///
  /// - Throws: `.limitExceeded` when the record would begin at an offset that no address can
  ///   express: values that had a dictionary may have become longer.
  private func append(
    _ record: RecordReference, _ candidate: CompactionCandidate, _ values: SegmentValues
  ) throws(StoreError) {
    if isEmpty { try begin() }
    assert(file != nil, "a record is added to an output without a file")
    var copy = RecordCopy(record.base, record.header)
    try recoder.recode(
      &copy, record, from: candidate.address.slot, at: candidate.address.offset, values)
    let offset = lengthBytes
    guard offset < limitBytes else {
      throw StoreError(.limitExceeded, "the live records do not fit into one segment", file: name)
    }
    assert(offset.isMultiple(of: recordAlignment), "a copy begins at an unaligned offset")
    assert(copy.length <= StoreLimits.recordLengthBytes, "a copy is longer than a record can be")
    place(copy.length) { copy.write(to: $0, at: UInt64(offset), seed: seed) }
    let isFirst = recordCount == 0
    recordCount += 1
    assert(lengthBytes == offset + aligned(copy.length), "a copy has another length than its room")
    assert(
      self.header.flags.contains(.clustered) || candidate.sequence > lastSequence,
      "the sequence numbers of an output do not rise")
    firstSequence = isFirst ? candidate.sequence : min(firstSequence, candidate.sequence)
    lastSequence = max(lastSequence, candidate.sequence)
    earliestExpiry = min(earliestExpiry, candidate.expiryMilliseconds)
    if candidate.expiryMilliseconds != .max { expiries.add(candidate.expiryMilliseconds, offset) }
    if candidate.isDelete {
      deleteBytes += aligned(copy.length)
    } else {
      liveBytes += UInt64(aligned(copy.length))
      relocations.append(
        Relocation(
          old: candidate.address, hash: candidate.hash, sequence: candidate.sequence,
          newOffset: UInt32(truncatingIfNeeded: offset),
          oldLength: UInt32(truncatingIfNeeded: candidate.length),
          newLength: UInt32(truncatingIfNeeded: copy.length), keyspace: candidate.keyspace,
          orderedKey: candidate.orderedKey))
    }
    if buffer.count >= Self.flushBytes { try flush() }
  }

  /// Calls the body with zeroed memory for the next record.
  private func place(_ length: Int, _ write: (UnsafeMutableRawPointer) -> Void) {
    let place = buffer.count
    buffer.append(contentsOf: repeatElement(0, count: aligned(length)))
    buffer.withUnsafeMutableBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      write(base + place)
    }
  }

  private func begin() throws(StoreError) {
    file = try storing { () throws(StorageError) in
      try directory.remove(name)
      return try directory.createFile(name)
    }
    buffer = header.encoded()
    assert(written == 0, "an output begins again after bytes were written")
    assert(buffer.count == header.headerLength, "a header has another length than it states")
  }

  private func flush() throws(StoreError) {
    guard let file else { return }
    let place = UInt64(written)
    try buffer.withBytes { (bytes) throws(StoreError) in
      try storing { () throws(StorageError) in
        try file.write(bytes, at: place)
        // The sync at the end would otherwise write all of it, and other syncs would wait.
        try file.announceSync(from: place, to: place + UInt64(bytes.count))
      }
    }
    written += buffer.count
    buffer.removeAll(keepingCapacity: true)
  }

  /// Appends the footer, and makes the segment and its name durable.
  func finish(_ pipeline: CommitPipeline) throws(StoreError) {
    precondition(waiting.isEmpty, "records that a compaction has read are not copied")
    guard let file else { return }
    precondition(
      lengthBytes == header.headerLength + Int(liveBytes) + deleteBytes,
      "the records of an output have another length than it counts")
    // The footer's digest is never compared: its sequence number is below `compactedThrough`.
    let footer = SegmentFooter(
      recordCount: recordCount, firstSequence: SequenceNumber(rawValue: firstSequence),
      lastSequence: SequenceNumber(rawValue: lastSequence),
      wallMilliseconds: SystemClock.wallMilliseconds(), digest: StateDigest())
    let offset = UInt64(lengthBytes)
    footer.encoded().withUnsafeBytes { payload in
      let draft = RecordDraft(
        sequence: lastSequence, kind: .footer, key: UnsafeRawBufferPointer(start: nil, count: 0),
        stored: payload)
      place(draft.length) { draft.write(to: $0, at: offset, seed: seed) }
    }
    try flush()
    do throws(StorageError) {
      try file.synchronize(.full)
      try directory.synchronize()
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
  }

  /// Releases the memory that the copies took. The segment stays.
  func release() {
    relocations = []
    buffer = []
    expiries = ExpiryRun()
  }

  /// Leaves the segment to the snapshots that read it: ``discard()`` has no effect any more.
  func leaveToSnapshots() { file = nil }

  /// Removes the segment, which no manifest lists.
  func discard() throws(StoreError) {
    guard file != nil else { return }
    file = nil
    try storing { () throws(StorageError) in try directory.remove(name) }
  }
}
