import MoraineFormat
import MoraineStorage

/// A sealed segment that is read to be rewritten.
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

/// A record that may be copied.
struct CompactionCandidate {
  let address: Address
  let length: Int
  let hash: UInt64
  let sequence: UInt64
  let keyspace: UInt16
  let isDelete: Bool
  /// The maximum when it does not expire.
  let expiryMilliseconds: UInt64
}

/// Reads inputs in order, checking every checksum. One thread at a time.
///
/// Safety of `@unchecked Sendable`: it is handed from call to call of one compaction, each of which
/// waits for the one before.
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
  /// Of the segment that the last chunk was of.
  var values = SegmentValues(dictionary: [], name: "")

  /// - Parameter sampling: which puts are looked at; nil for all records.
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

  /// The puts and deletes that come next, all of one segment; nil at the end of the last. Where
  /// only some are looked at, there may be none among those that come next.
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

  /// How many bytes were read since this was asked last.
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
            sequence: header.sequence, keyspace: header.keyspace, isDelete: header.kind == .delete,
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

  /// Reads the dictionary of an input.
  static func dictionary(
    of input: CompactionInput, _ directory: any StorageDirectory
  ) throws(StoreError) -> [UInt8] {
    try dictionary(input, source(input, directory))
  }

  /// Its checksum is verified again: a copy made with a damaged dictionary would look sound.
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

  /// A record of the last chunk, whose checksum was verified then.
  func record(_ candidate: CompactionCandidate) throws(StoreError) -> RecordReference {
    guard let source = scanner?.source else { fatalError("no input is open") }
    assert(
      candidate.address.slot == inputs[next].slot, "a record is not of the segment read last")
    assert(
      candidate.address.offset + candidate.length <= source.length,
      "a record ends after its segment")
    let base = try source.bytes(at: candidate.address.offset, count: candidate.length)
    guard let header = RecordHeader.parse(base, length: candidate.length) else {
      throw .corrupted(
        "a record changed while it was copied", inputs[next].name,
        at: candidate.address.offset)
    }
    return RecordReference(base: base, header: header)
  }
}
