import MoraineFormat
import MoraineStorage
import SystemPackage

/// Copies segments from one directory to another. A segment gets its name when it is complete and
/// durable.
struct SegmentCopier {
  private static let chunkBytes = 1 << 20

  let source: any StorageDirectory
  let target: any StorageDirectory
  /// Whether both directories may share one file, as a hard link. A store and its backup may,
  /// because neither changes a sealed segment.
  let mayLink: Bool

  /// The part of a segment to copy: its first bytes, or all of them.
  struct Piece {
    let name: String
    let lengthBytes: Int
    /// The segment's bytes in memory, if it is mapped.
    let mapping: (any FileMapping)?
    /// Throws if the segment's name may lead to a file of another store by now.
    let check: () throws(StoreError) -> Void
    private let isCut: Bool
    private let isDurable: () -> Bool

    /// Whether the segment is sealed and durable, as far as is known now, so that the file does not
    /// change any more, and its name still leads to it.
    var isSealed: Bool { !isCut && isDurable() }

    init(
      _ entry: Manifest.Segment, mapping: (any FileMapping)? = nil,
      isDurable: @escaping () -> Bool = { true },
      check: @escaping () throws(StoreError) -> Void = {}
    ) {
      name = entry.number.fileName
      lengthBytes = Int(entry.lengthBytes)
      isCut = entry.flags.contains(.cut)
      self.mapping = mapping
      self.isDurable = isDurable
      self.check = check
    }
  }

  /// Copies or shares a segment.
  ///
  /// - Parameter progress: called with the number of bytes in each step.
  /// - Returns: true if the bytes are shared, false if they were copied.
  /// - Throws: `.corrupted` when the file is shorter than the segment, `.noSpace`, `.io`; the
  ///   errors of the piece's check. The segment's name leads to the same file as before then.
  func transfer(_ piece: Piece, _ progress: (Int) -> Void) throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try target.remove(FileName.temporarySegment) }
    let isShared = try shareDurably(piece)
    if isShared {
      progress(piece.lengthBytes)
    } else {
      do throws(StoreError) {
        try copy(piece, progress)
        try synchronize()
      } catch {
        try piece.check()
        throw error
      }
      // What was copied before this check is the store's.
      try piece.check()
    }
    try storing { () throws(StorageError) in
      try target.rename(FileName.temporarySegment, to: piece.name)
      // An interrupted backup may have linked the file already: then the file has both names, and
      // the system renames nothing.
      try target.remove(FileName.temporarySegment)
    }
    return isShared
  }

  private func synchronize() throws(StoreError) {
    try storing { () throws(StorageError) in
      try target.openFile(FileName.temporarySegment, .read)?.synchronize(.full)
    }
  }

  /// Shares a segment if the disk then holds all of its bytes.
  private func shareDurably(_ piece: Piece) throws(StoreError) -> Bool {
    guard try share(piece) else { return false }
    try synchronize()
    if piece.isSealed { return true }
    // Before this sync, the store's own sync of the file may have failed and dropped bytes.
    try storing { () throws(StorageError) in try target.remove(FileName.temporarySegment) }
    return false
  }

  private func share(_ piece: Piece) throws(StoreError) -> Bool {
    guard piece.isSealed else { return false }
    do throws(StorageError) {
      // While the segment is being sealed, its file may still be longer.
      guard let file = try source.openFile(piece.name, .read),
        try file.lengthBytes() == UInt64(piece.lengthBytes)
      else { return false }
      return try source.share(
        piece.name, into: target, as: FileName.temporarySegment, linking: mayLink)
    } catch {
      // Compaction may have removed the file since. The mapping still holds its bytes; without one
      // the copy reports that the file is missing.
      guard error.errno == .noSuchFileOrDirectory else { throw StoreError(error) }
      return false
    }
  }

  private func copy(_ piece: Piece, _ progress: (Int) -> Void) throws(StoreError) {
    let output = try storing { () throws(StorageError) in
      try target.createFile(FileName.temporarySegment)
    }
    var offset = 0
    let bytes = try bytes(of: piece)
    while offset < piece.lengthBytes {
      let count = min(Self.chunkBytes, piece.lengthBytes - offset)
      let chunk = UnsafeRawBufferPointer(start: try bytes(offset, count), count: count)
      try storing { () throws(StorageError) in try output.write(chunk, at: UInt64(offset)) }
      offset += count
      progress(count)
    }
  }

  /// Returns a function that reads bytes at an offset. The bytes are valid until the next call of
  /// that function.
  private func bytes(
    of piece: Piece
  ) throws(StoreError) -> (Int, Int) throws(StoreError) -> UnsafeRawPointer {
    if let mapping = piece.mapping {
      return { offset, _ in UnsafeRawPointer(mapping.base + offset) }
    }
    guard
      let source = try SegmentFile.source(
        source, piece.name, limit: piece.lengthBytes)
    else { throw .corrupted("a segment file is missing", piece.name, at: 0) }
    guard source.length == piece.lengthBytes else {
      throw .corrupted(
        "the segment has \(source.length) bytes instead of \(piece.lengthBytes)", piece.name,
        at: source.length)
    }
    return { (offset, count) throws(StoreError) in try source.bytes(at: offset, count: count) }
  }
}

/// The part of a segment that belongs to a past state: all units, which are single operations or
/// whole batches, up to a sequence number.
struct SegmentPrefix {
  var offset: Int
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0

  /// - Throws: `.corrupted` when the segment's bytes differ from those that were written.
  init(
    of name: String, in directory: any StorageDirectory, lengthBytes: Int,
    through sequence: SequenceNumber
  ) throws(StoreError) {
    guard
      let source = try SegmentFile.source(
        directory, name, limit: lengthBytes)
    else { throw .corrupted("a segment file is missing", name, at: 0) }
    let header = try SegmentFile.header(source, name)
    // Compaction ends what a backup can be restored to, so only a forged manifest asks for this.
    guard !header.flags.contains(.clustered) else {
      throw .corrupted("a segment in key order cannot be cut", name, at: 96)
    }
    offset = header.headerLength
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    var unit = SegmentPrefix(offset: header.headerLength)
    while true {
      switch try scanner.next() {
      case .stop(let reason): throw .corrupted(reason, name, at: scanner.offset)
      case .end: return
      case .record(let record):
        let header = record.reference.header
        guard header.kind.isOperation else { continue }
        guard header.sequence <= sequence.rawValue else { return }
        if unit.recordCount == 0 { unit.firstSequence = header.sequence }
        unit.recordCount += 1
        unit.lastSequence = header.sequence
        if header.batch == .more { continue }
        unit.offset = scanner.offset
        append(unit)
        unit = SegmentPrefix(offset: scanner.offset)
      }
    }
  }

  private init(offset: Int) { self.offset = offset }

  private mutating func append(_ unit: SegmentPrefix) {
    assert(unit.recordCount > 0, "a unit has no records")
    assert(unit.offset > offset, "a unit ends before the last one")
    if recordCount == 0 { firstSequence = unit.firstSequence }
    recordCount += unit.recordCount
    lastSequence = unit.lastSequence
    offset = unit.offset
  }

  func entry(_ whole: Manifest.Segment) -> Manifest.Segment {
    precondition(
      UInt64(offset) <= whole.lengthBytes, "a part of a segment is longer than the whole")
    var entry = whole
    entry.flags.insert(.cut)
    entry.lengthBytes = UInt64(offset)
    entry.recordCount = recordCount
    entry.firstSequence = SequenceNumber(rawValue: firstSequence)
    entry.lastSequence = SequenceNumber(rawValue: lastSequence)
    return entry
  }
}
