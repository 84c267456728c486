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
}

/// A record that may be copied.
struct CompactionCandidate {
  let address: Address
  let length: Int
  let hash: UInt64
  let sequence: UInt64
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
  private var next = 0
  private var scanner: SegmentScanner?

  init(_ inputs: [CompactionInput], _ directory: any StorageDirectory, _ hashKey: HashKey) {
    self.inputs = inputs
    self.directory = directory
    self.hashKey = hashKey
  }

  /// The puts and deletes that come next, all of one segment; nil at the end of the last.
  ///
  /// - Throws: `.corrupted` when a record is not what was written, `.io`.
  func chunk() throws(StoreError) -> [CompactionCandidate]? {
    while true {
      if scanner == nil {
        guard next < inputs.count else { return nil }
        scanner = try open(inputs[next])
      }
      let candidates = try candidates(of: inputs[next].slot)
      if !candidates.isEmpty { return candidates }
      scanner = nil
      next += 1
    }
  }

  private func candidates(of slot: Int) throws(StoreError) -> [CompactionCandidate] {
    var result: [CompactionCandidate] = []
    guard var scanner else { return result }
    defer { self.scanner = scanner }
    var bytes = 0
    while result.count < Self.chunkRecords, bytes < Self.chunkBytes {
      let place = scanner.offset
      switch try scanner.next() {
      case .end: return result
      case .stop(let reason): throw .corrupted(reason, scanner.name, at: place)
      case .record(let record):
        let header = record.reference.header
        guard header.kind == .put || header.kind == .delete else { continue }
        bytes += header.length
        result.append(
          CompactionCandidate(
            address: Address(slot: slot, offset: record.offset), length: header.length,
            hash: KeyHash.hash(record.reference.key, keyspace: header.keyspace, with: hashKey),
            sequence: header.sequence, isDelete: header.kind == .delete,
            expiryMilliseconds: header.expiryMilliseconds(at: record.reference.base) ?? .max))
      }
    }
    return result
  }

  private func open(_ input: CompactionInput) throws(StoreError) -> SegmentScanner {
    let file = try storing { () throws(StorageError) in
      try directory.openFile(input.name, .read)
    }
    guard let file else { throw .corrupted("the file vanished", input.name, at: 0) }
    let source = ByteSource(
      file: file, name: input.name, length: input.end, mapping: input.mapping)
    return SegmentScanner(
      source: source, name: input.name, seed: input.seed, offset: input.firstOffset)
  }

  /// A record of the last chunk, whose checksum was verified then.
  func record(_ candidate: CompactionCandidate) throws(StoreError) -> RecordReference {
    guard let source = scanner?.source else { fatalError("no input is open") }
    let base = try source.bytes(at: candidate.address.offset, count: candidate.length)
    guard let header = RecordHeader.parse(base, length: candidate.length) else {
      throw .corrupted(
        "a record changed while it was copied", inputs[next].name,
        at: candidate.address.offset)
    }
    return RecordReference(base: base, header: header)
  }
}
