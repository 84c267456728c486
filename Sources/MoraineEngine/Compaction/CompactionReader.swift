import MoraineFormat
import MoraineStorage

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
}

/// A record that the compaction copies if it is needed.
struct CompactionCandidate {
  let address: Address
  let length: Int
  let hash: UInt64
  let sequence: UInt64
  let keyspace: UInt16
  let isDelete: Bool
  /// Time of expiry in milliseconds since 1970; `UInt64.max` for a record that does not expire.
  let expiryMilliseconds: UInt64
}

/// Reads the inputs of a compaction in order, and verifies every checksum. One thread uses it at a
/// time.
///
/// Safety of `@unchecked Sendable`: one compaction passes the reader from call to call, and each
/// call waits until the one before it has returned.
final class CompactionReader: @unchecked Sendable {
  private static let chunkRecords = 2048
  private static let chunkBytes = 512 << 10
  private let inputs: [CompactionInput]
  private let directory: any StorageDirectory
  private let hashKey: HashKey
  private let sampling: DictionarySampling?
  private var next = 0
  private var scanner: SegmentScanner?
  private var readBytes = 0
  /// Decompresses the values of the segment that the last chunk came from.
  var values = SegmentValues(dictionary: [], name: "")

  /// - Parameter sampling: selects the puts that are read; nil for all records.
  init(
    _ inputs: [CompactionInput], _ directory: any StorageDirectory, _ hashKey: HashKey,
    sampling: DictionarySampling? = nil
  ) {
    assert(!inputs.isEmpty, "a compaction has no inputs")
    assert(Set(inputs.map(\.slot)).count == inputs.count, "a segment is an input twice")
    self.inputs = inputs
    self.directory = directory
    self.hashKey = hashKey
    self.sampling = sampling
  }

  /// Returns the next puts and deletes, all of one segment; nil after the last segment. With a
  /// sampling, a chunk may be empty.
  ///
  /// - Throws: `.corrupted` when a record is not what was written, `.io`.
  func chunk() throws(StoreError) -> [CompactionCandidate]? {
    while next < inputs.count {
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
    while result.count < Self.chunkRecords, scanner.offset - start < Self.chunkBytes {
      let place = scanner.offset
      switch try scanner.next() {
      case .end: return result
      case .stop(let reason): throw .corrupted(reason, scanner.name, at: place)
      case .record(let record):
        let header = record.reference.header
        guard header.kind.isOperation else { continue }
        if let sampling, !sampling.takes(header) { continue }
        result.append(
          CompactionCandidate(
            address: Address(slot: slot, offset: record.offset), length: header.length,
            hash: KeyHash.hash(record.reference.key, keyspace: header.keyspace, with: hashKey),
            sequence: header.sequence, keyspace: header.keyspace,
            isDelete: header.kind.effect == .removes,
            expiryMilliseconds: record.reference.expiryMilliseconds ?? .max))
      }
    }
    return result
  }

  private func open(_ input: CompactionInput) throws(StoreError) -> SegmentScanner {
    assert(input.firstOffset <= input.end, "an input ends inside its header")
    assert(
      input.firstOffset.isMultiple(of: recordAlignment), "an input begins at an unaligned offset")
    let source = try Self.source(input, directory)
    values = SegmentValues(dictionary: try Self.dictionary(input, source), name: input.name)
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
    guard inputs[next].mapping != nil || checksumMatches(base, candidate),
      let header = RecordHeader.parse(base, length: candidate.length)
    else {
      throw .corrupted(
        "a record changed while it was copied", inputs[next].name,
        at: candidate.address.offset)
    }
    return RecordReference(base: base, header: header)
  }

  private func checksumMatches(
    _ base: UnsafeRawPointer, _ candidate: CompactionCandidate
  ) -> Bool {
    let checksum = RecordHeader.checksum(
      of: base, length: candidate.length, at: UInt64(candidate.address.offset),
      seed: inputs[next].seed)
    return checksum == RecordHeader.storedChecksum(at: base)
  }
}
