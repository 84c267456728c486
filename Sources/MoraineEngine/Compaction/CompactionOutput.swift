import MoraineFormat
import MoraineStorage

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
  /// Sequence number of the last delete that was left out: the feed of changes no longer contains
  /// it.
  var lastDroppedDelete: UInt64 = 0
  private(set) var file: (any StorageFile)?
  private let directory: any StorageDirectory
  private let seed: Checksum
  private let limitBytes: Int
  private var recoder = ValueRecoder(.none)
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

  /// Sets the dictionary that the values share. Called before the first record is appended.
  func share(_ dictionary: SharedDictionary) {
    precondition(isEmpty, "the dictionary must be set before the first record")
    assert(header.dictionary.isEmpty, "an output gets a second dictionary")
    header.dictionary = dictionary.bytes
    if !dictionary.bytes.isEmpty { header.flags.insert(.hasDictionary) }
    recoder = ValueRecoder(dictionary)
  }

  /// Copies a record with its sequence number, key and value to its new offset.
  ///
  /// - Throws: `.limitExceeded` when the record would begin at an offset that no address can
  ///   express: values that had a dictionary may have become longer.
  func append(
    _ record: RecordReference, _ candidate: CompactionCandidate, _ values: inout SegmentValues
  ) throws(StoreError) {
    if isEmpty { try begin() }
    assert(file != nil, "a record is added to an output without a file")
    var copy = RecordCopy(record.base, record.header)
    try recoder.recode(
      &copy, record, from: candidate.address.slot, at: candidate.address.offset, &values)
    let offset = lengthBytes
    guard offset < limitBytes else {
      throw StoreError(.limitExceeded, "the live records do not fit into one segment", file: name)
    }
    assert(offset.isMultiple(of: recordAlignment), "a copy begins at an unaligned offset")
    assert(copy.length <= StoreLimits.recordLengthBytes, "a copy is longer than a record can be")
    place(copy.length) { copy.write(to: $0, at: UInt64(offset), seed: seed) }
    recordCount += 1
    assert(lengthBytes == offset + aligned(copy.length), "a copy has another length than its room")
    if firstSequence == 0 { firstSequence = candidate.sequence }
    lastSequence = candidate.sequence
    earliestExpiry = min(earliestExpiry, candidate.expiryMilliseconds)
    if candidate.isDelete {
      deleteBytes += aligned(copy.length)
    } else {
      liveBytes += UInt64(aligned(copy.length))
      relocations.append(
        Relocation(
          old: candidate.address, hash: candidate.hash, sequence: candidate.sequence,
          newOffset: UInt32(truncatingIfNeeded: offset),
          oldLength: UInt32(truncatingIfNeeded: candidate.length),
          newLength: UInt32(truncatingIfNeeded: copy.length), keyspace: candidate.keyspace))
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
      try storing { () throws(StorageError) in try file.write(bytes, at: place) }
    }
    written += buffer.count
    buffer.removeAll(keepingCapacity: true)
  }

  /// Appends the footer, and makes the segment and its name durable.
  func finish(_ pipeline: CommitPipeline) throws(StoreError) {
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

  /// Removes the segment, which no manifest lists.
  func discard() throws(StoreError) {
    guard file != nil else { return }
    file = nil
    try storing { () throws(StorageError) in try directory.remove(name) }
  }
}
