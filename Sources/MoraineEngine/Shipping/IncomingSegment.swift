import MoraineFormat
import MoraineStorage

/// Bytes of a segment that come from elsewhere.
package struct LogPiece: Sendable {
  package let segment: SegmentIdentity
  /// The place of the first byte in the segment.
  package let from: Int
  package let bytes: [UInt8]

  package init(segment: SegmentIdentity, from: Int, bytes: [UInt8]) {
    (self.segment, self.from, self.bytes) = (segment, from, bytes)
  }

  package var end: Int { from + bytes.count }
}

/// A segment of which a follower has received bytes that it has not applied.
///
/// The bytes are in the segment's file, after the end that the manifest lists. So a process that is
/// killed has not received them: the next opening cuts the file, or removes a file that is not
/// listed.
struct IncomingSegment: Sendable {
  let identity: SegmentIdentity
  /// The end of the bytes that were applied; 0 for a segment that the manifest does not list.
  let start: Int
  /// The end of the bytes that were received.
  private(set) var end: Int
  /// Nil before the first write.
  private var file: (any StorageFile)?

  init(_ identity: SegmentIdentity, appliedTo start: Int) {
    self.identity = identity
    (self.start, end) = (start, start)
  }

  var isNew: Bool { start == 0 }

  private var name: String { identity.number.fileName }

  /// Writes a piece to the file. Blocks the calling thread.
  ///
  /// - Throws: `.noSpace`, `.io`; `.corrupted` when the file is missing.
  mutating func write(
    _ piece: LogPiece, in directory: any StorageDirectory
  ) throws(StoreError) {
    precondition(piece.from <= end, "a piece leaves bytes of its segment out")
    let file = try openFile(in: directory)
    let known = end - piece.from
    guard known < piece.bytes.count else { return }
    let offset = UInt64(end)
    try piece.bytes.withBytes { (bytes) throws(StoreError) in
      try storing { () throws(StorageError) in
        try file.write(UnsafeRawBufferPointer(rebasing: bytes[known...]), at: offset)
      }
    }
    end = piece.end
  }

  private mutating func openFile(
    in directory: any StorageDirectory
  ) throws(StoreError) -> any StorageFile {
    if let file { return file }
    let (name, isNew) = (name, isNew)
    let opened = try storing { () throws(StorageError) -> (any StorageFile)? in
      guard isNew else { return try directory.openFile(name, .readWrite) }
      // What an earlier attempt has left; the manifest does not list it.
      try directory.remove(name)
      return try directory.createFile(name)
    }
    guard let opened else { throw .corrupted("the file is missing", name, at: 0) }
    file = opened
    return opened
  }

  /// Checks each record that was received, and makes the bytes durable. Blocks the calling thread.
  ///
  /// - Parameter pipeline: the store's; a failed sync poisons it.
  /// - Returns: the header of the segment.
  /// - Throws: `.corrupted` when the bytes are no records, or end within one; `.noSpace`, `.io`.
  func makeDurable(_ pipeline: CommitPipeline) throws(StoreError) -> SegmentHeader {
    guard let file else { fatalError("a segment without received bytes is made durable") }
    let source = ByteSource(file: file, name: name, length: end, mapping: nil)
    let header = try SegmentFile.header(source, name)
    guard header.number == identity.number, header.epoch == identity.epoch,
      header.salt == identity.salt
    else { throw .corrupted("the received segment is another one", name, at: 0) }
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed,
      offset: max(start, header.headerLength))
    scan: while true {
      switch try scanner.next() {
      case .record: continue
      case .end: break scan
      case .stop(let reason): throw .corrupted(reason, name, at: scanner.offset)
      }
    }
    let length = UInt64(end)
    try storing { () throws(StorageError) in try file.truncate(to: length) }
    try pipeline.syncing { () throws(StorageError) in
      try file.synchronize(.full)
    }
    return header
  }
}

extension CommitPipeline {
  /// Runs a sync of a follower's files. When it fails, the store ends all writing: a second sync
  /// of the same bytes may succeed, although the disk does not hold them.
  func syncing(_ body: () throws(StorageError) -> Void) throws(StoreError) {
    do throws(StorageError) { try body() } catch {
      poison(StoreError(error))
      throw StoreError(error)
    }
  }
}
