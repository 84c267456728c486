import MoraineFormat
import MoraineStorage
import SystemPackage

/// Puts segments of one directory into another: under their names once they are whole and durable.
struct SegmentCopier {
  private static let chunkBytes = 1 << 20

  let source: any StorageDirectory
  let target: any StorageDirectory
  /// Whether both may have one file. A store and its backup may: neither changes a sealed segment.
  let mayLink: Bool

  /// What is carried of a segment: its first bytes, or all.
  struct Piece {
    let name: String
    let lengthBytes: Int
    /// Whether it is sealed and durable, so that the file will stay as it is.
    let isSealed: Bool
    /// Its bytes in memory, if they are there.
    let mapping: (any FileMapping)?

    init(
      _ entry: Manifest.Segment, mapping: (any FileMapping)? = nil, isDurable: Bool = true
    ) {
      name = entry.number.fileName
      lengthBytes = Int(entry.lengthBytes)
      isSealed = isDurable && !entry.flags.contains(.cut)
      self.mapping = mapping
    }
  }

  /// - Parameter progress: called with the bytes of each step.
  /// - Returns: whether its bytes are shared; else they were copied.
  /// - Throws: `.corrupted` when the file is shorter than it must be, `.noSpace`, `.io`.
  func transfer(_ piece: Piece, _ progress: (Int) -> Void) throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try target.remove(FileName.temporarySegment) }
    let isShared = try share(piece)
    if isShared { progress(piece.lengthBytes) } else { try copy(piece, progress) }
    try storing { () throws(StorageError) in
      try target.openFile(FileName.temporarySegment, .read)?.synchronize(.full)
      try target.rename(FileName.temporarySegment, to: piece.name)
    }
    return isShared
  }

  private func share(_ piece: Piece) throws(StoreError) -> Bool {
    guard piece.isSealed else { return false }
    do throws(StorageError) {
      // While it is being sealed, its file may still be longer.
      guard let file = try source.openFile(piece.name, .read),
        try file.lengthBytes() == UInt64(piece.lengthBytes)
      else { return false }
      return try source.share(
        piece.name, into: target, as: FileName.temporarySegment, linking: mayLink)
    } catch {
      // Compaction may have removed it in between; its bytes are in memory as long as they are
      // used.
      guard error.errno == .noSuchFileOrDirectory, piece.mapping != nil else {
        throw StoreError(error)
      }
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

  /// What gives the bytes at a place, valid until it is asked again.
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

/// How much of a segment a state in the past has: all units whose operations it has.
struct SegmentPrefix {
  var offset: Int
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0

  /// - Throws: `.corrupted` when the segment is not what was written.
  init(
    of name: String, in directory: any StorageDirectory, lengthBytes: Int,
    through sequence: SequenceNumber
  ) throws(StoreError) {
    guard
      let source = try SegmentFile.source(
        directory, name, limit: lengthBytes)
    else { throw .corrupted("a segment file is missing", name, at: 0) }
    let header = try SegmentFile.header(source, name)
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
    if recordCount == 0 { firstSequence = unit.firstSequence }
    recordCount += unit.recordCount
    lastSequence = unit.lastSequence
    offset = unit.offset
  }

  func entry(_ whole: Manifest.Segment) -> Manifest.Segment {
    var entry = whole
    entry.flags.insert(.cut)
    entry.lengthBytes = UInt64(offset)
    entry.recordCount = recordCount
    entry.firstSequence = SequenceNumber(rawValue: firstSequence)
    entry.lastSequence = SequenceNumber(rawValue: lastSequence)
    return entry
  }
}
