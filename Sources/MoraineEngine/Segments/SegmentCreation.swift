import MoraineFormat
import MoraineStorage
import SystemPackage

/// A job of the committing thread: creates a new segment. It creates the file exclusively, writes
/// the header, and syncs file and directory. Only then does a manifest list the segment, and only
/// then is any write in it acknowledged.
struct SegmentCreation: Sendable {
  let directory: any StorageDirectory
  let header: SegmentHeader
  /// Offset at which the segment is full, if the disk has space for several such segments.
  let wantedLimit: Int
  /// Offset up to which the limit may be raised later, if the disk has space for several such
  /// segments.
  let wantedGrowth: Int
  let firstAllocation: Int
  /// Bytes that the first unit needs: the least that is allocated.
  let neededBytes: Int
  let wantsMapping: Bool
  let prefaulting: Prefaulting
  /// Whether there are so many segments that only compaction may create another one.
  let isOneTooMany: Bool

  struct Created: Sendable {
    let file: any StorageFile
    let mapping: (any FileMapping)?
    let allocated: Int?
    let limit: Int
    /// End of the mapping.
    let growthLimit: Int
  }

  func run(_ pipeline: CommitPipeline) throws(StoreError) -> Created {
    // The job may have waited for a seal whose sync failed; nothing is synced after that.
    if let poison = pipeline.poison { throw poison }
    if isOneTooMany { throw SegmentTable.full }
    try pipeline.checkPresence()
    let name = header.number.fileName
    do throws(StorageError) {
      // A leftover of a creation that failed; the manifest never listed it.
      try directory.remove(name)
      let free = Int(clamping: try directory.freeBytes())
      let file = try directory.createFile(name)
      let created = try prepare(file, free)
      do throws(StorageError) {
        try file.synchronize(.full)
        try directory.synchronize()
      } catch {
        pipeline.poison(StoreError(error))
        throw error
      }
      // Only now: pages that are made present are dirty, and the sync would write them all.
      if let mapping = created.mapping, let allocated = created.allocated {
        prefaulting.prepare(file, mapping, from: header.headerLength, to: allocated)
      }
      return created
    } catch {
      if !pipeline.hasPoison {
        try storing { () throws(StorageError) in try directory.remove(name) }
      }
      throw StoreError(error)
    }
  }

  /// Returns the entry of the segment in the table.
  func info(of created: Created) -> SegmentInfo {
    SegmentInfo(
      number: header.number, epoch: header.epoch, salt: header.salt, mapping: created.mapping)
  }

  /// Removes the segment file, which no manifest lists.
  func discard() throws(StoreError) {
    try storing { () throws(StorageError) in try directory.remove(header.number.fileName) }
  }

  /// Returns the limit: at most an eighth of the free space. Compaction frees a full disk segment
  /// by segment, and the smaller the segments are, the less space it needs for the first one.
  private func limit(_ free: Int) -> Int { fitting(wantedLimit, free) }

  private func fitting(_ wish: Int, _ free: Int) -> Int {
    max(neededBytes, min(wish, max(ActiveSegment.smallestAllocation, free / 8)))
  }

  /// Returns the first allocation: at most half of the free space, because the manifest needs space
  /// too.
  private func allocation(_ free: Int) -> Int {
    let wish = min(firstAllocation, limit(free), free / 2)
    return FileBlock.covering(max(neededBytes, wish))
  }

  private func prepare(_ file: any StorageFile, _ free: Int) throws(StorageError) -> Created {
    let limit = limit(free)
    let bytes = header.encoded()
    assert(bytes.count == header.headerLength, "a header has another length than it says")
    assert(limit >= neededBytes, "a segment is too small for its first unit")
    var mapping: (any FileMapping)?
    var allocated = 0
    let growthLimit = max(limit, fitting(wantedGrowth, free))
    if wantsMapping {
      do throws(StorageError) {
        // Before the allocation: the file must still be empty.
        try file.keepInPlace()
        allocated = try allocate(file, allocation(free))
        mapping = try file.map(lengthBytes: FileBlock.covering(growthLimit), .readWrite)
      } catch {
        // The kernel may have no more mappings, or the file system may need new space for each
        // overwrite. Then this segment is written without a mapping.
        guard error.isUnsupported || error.errno == .noMemory else { throw error }
        try file.truncate(to: 0)
      }
    }
    try bytes.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
    return Created(
      file: file, mapping: mapping, allocated: mapping == nil ? nil : allocated, limit: limit,
      growthLimit: growthLimit)
  }

  private func allocate(_ file: any StorageFile, _ wish: Int) throws(StorageError) -> Int {
    do throws(StorageError) {
      try file.allocate(from: 0, to: UInt64(wish))
      return wish
    } catch {
      let least = FileBlock.covering(neededBytes)
      guard error.isNoSpace, least < wish else { throw error }
      // On a nearly full disk a delete must still fit.
      try file.truncate(to: 0)
      try file.allocate(from: 0, to: UInt64(least))
      return least
    }
  }
}

/// A job of the committing thread: cuts a full segment to its length and makes it durable.
struct SealWork: Sendable {
  let number: SegmentNumber
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let lengthBytes: UInt64
  let lastSequence: UInt64
  /// Held so that no other opening gets the directory while the job runs, even if the store no
  /// longer exists.
  let lock: (any StorageFile)?

  func run(_ pipeline: CommitPipeline) throws(StoreError) {
    if let poison = pipeline.poison { throw poison }
    assert(lengthBytes > 0, "a segment without a header is sealed")
    do throws(StorageError) {
      try file.truncate(to: lengthBytes)
      mapping?.finishWriting(to: Int(clamping: lengthBytes))
      try file.synchronize(.full)
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
    try pipeline.checkPeers(syncedWith: file)
    try pipeline.checkPresence(of: file, syncedTo: lengthBytes)
    pipeline.becameDurable(through: lastSequence)
    pipeline.events?.send(.segmentSealed(number, lengthBytes: lengthBytes))
  }

  /// Makes the pages of the segment present that are in the file cache. Overwriting a record reads
  /// its old head: without this, each page costs a page fault then. No writer waits for it: a large
  /// segment takes tens of milliseconds.
  func prefault() {
    guard let mapping else { return }
    let end = Int(clamping: lengthBytes)
    SerialQueue(.background).enqueue { refusal in
      if refusal == nil { mapping.prefaultForReading(to: end) }
    }
  }
}
