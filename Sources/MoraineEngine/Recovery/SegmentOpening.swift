import MoraineFormat
import MoraineStorage
import SystemPackage

/// Functions that open the file of one segment for replay.
enum SegmentOpening {
  /// A segment that was added to the table.
  struct Opened {
    let slot: Int
    /// Nil where nothing is left to read.
    var source: ByteSource?
    let header: SegmentHeader
    /// Offset at which replaying begins: after the header, or after the part that a checkpoint
    /// covers.
    let start: Int
    /// The last sequence number before `start`.
    let lastSequence: UInt64
  }

  /// Opens a listed segment and adds it to the table.
  ///
  /// - Parameters:
  ///   - covered: the segment's figures in a checkpoint, if one covers it.
  ///   - growth: the length that the segment may reach, in a process that follows its growth.
  static func add(
    _ entry: Manifest.Segment, _ state: inout EngineState, length: Int,
    covered: CheckpointHeader.Segment? = nil, growingTo growth: Int? = nil
  ) throws(StoreError) -> Opened {
    let name = entry.number.fileName
    let isWritable = growth != nil && !state.configuration.isReadOnly
    let file = try storing { () throws(StorageError) in
      try state.directory.openFile(name, isWritable ? .readWrite : .read)
    }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let wanted = max(length, growth.map(FileBlock.covering) ?? 0)
    let mapping =
      state.configuration.ioMode == .mapped && wanted > 0
      ? try SegmentFile.map(file, wanted, isWritable ? .readWrite : .read) : nil
    let source = ByteSource(file: file, name: name, length: length, mapping: mapping)
    let header = try SegmentFile.header(source, name)
    guard header.storeID == state.log.manifest.storeID, header.number == entry.number,
      header.epoch == entry.epoch
    else {
      throw .corrupted("the header names another store, segment number or epoch", name, at: 16)
    }
    guard header.generation <= state.log.manifest.generation else {
      throw .corrupted(
        "the segment is newer than the manifest, which an older copy has replaced", name,
        at: 72)
    }
    guard !header.flags.contains(.encrypted) else {
      throw StoreError(
        .newerFormat,
        "the segment is encrypted, which this version cannot read; update this program", file: name)
    }
    let info = SegmentInfo(
      number: entry.number, epoch: entry.epoch, salt: header.salt, mapping: mapping,
      dictionary: header.dictionary)
    var view = SegmentView(
      base: mapping?.base, end: header.headerLength, seed: header.checksumSeed)
    view.dictionaryLength = header.dictionary.count
    guard let covered else {
      return Opened(
        slot: state.log.table.append(view, info), source: source, header: header,
        start: header.headerLength, lastSequence: 0)
    }
    guard covered.salt == header.salt, covered.endOffset >= UInt64(header.headerLength),
      covered.endOffset <= UInt64(length)
    else {
      throw .indexDamaged(
        "the index checkpoint does not match \(name)", state.checkpointNames.first)
    }
    guard try holdsTail(covered, entry, source, from: header.headerLength) else {
      throw .indexDamaged(
        "the index checkpoint covers records that \(name) does not contain",
        state.checkpointNames.first)
    }
    view.adopt(covered)
    state.log.table.append(view, info, in: Int(covered.slot))
    return Opened(
      slot: Int(covered.slot), source: source, header: header, start: view.end,
      lastSequence: covered.lastSequence)
  }

  /// Returns whether a segment holds the last bytes that a checkpoint covers. A log that was not
  /// sealed may have become shorter since: through a copy that was made while it grew, or a disk
  /// that lied.
  private static func holdsTail(
    _ covered: CheckpointHeader.Segment, _ entry: Manifest.Segment, _ source: ByteSource,
    from first: Int
  ) throws(StoreError) -> Bool {
    guard !entry.isSealed || covered.tailChecksum != 0 else { return true }
    let end = Int(clamping: covered.endOffset)
    return try source.tailChecksum(from: first, to: end) == covered.tailChecksum
  }
}
