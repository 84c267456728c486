import MoraineStorage

/// A file that reserves a little space for a full disk.
///
/// Deletes may use half of the space. The other half is for operations that free more: a
/// compaction, or closing. The reserve grows with the store, to a share that a sparsely populated
/// segment can be copied into. Each half also covers the space that the file system takes to create
/// a file (`creationBytes`): a delete may need a new segment, a compaction its output, an opening
/// after a kill a manifest.
///
/// Puts fill the whole reserve. A store that was opened on a full disk may never take a put, so a
/// delete that takes space first reserves the half for a compaction (``restore(_:leavesHalf:)``).
struct Reserve {
  static let leastBytes = 64 << 10
  static let mostBytes = 4 << 20

  let directory: any StorageDirectory
  /// Number of bytes that are reserved.
  private(set) var lengthBytes = 0
  /// Whether the reserve is complete, so that puts need not leave space for deletes.
  private(set) var isFull = false
  /// Bytes of both halves that are for creating files; known when space is reserved for the first
  /// time.
  private var creationBytes = 0

  /// - Parameter found: the number of bytes that an earlier run has left.
  init(directory: any StorageDirectory, found: UInt64 = 0) {
    self.directory = directory
    lengthBytes = Int(clamping: found)
  }

  /// Returns how much to reserve for a number of live bytes: about a sixteenth.
  static func target(liveBytes: UInt64) -> Int {
    var target = leastBytes
    while target < mostBytes, UInt64(target) * 32 <= liveBytes { target *= 2 }
    return target
  }

  /// Returns whether a target is reserved completely.
  func holds(_ target: Int) -> Bool { isFull && lengthBytes >= target + creationBytes }

  /// Reserves the space, if it is not reserved yet. Where a file system cannot reserve space, there
  /// is no reserve, and that is no error.
  mutating func keep(_ target: Int) throws(StorageError) {
    creationBytes = 2 * Int(clamping: try directory.creationBytes())
    guard !holds(target) else { return }
    let target = target + creationBytes
    do throws(StorageError) {
      try grow(try directory.openOrCreateFile(FileName.reserve), to: target)
    } catch {
      // The existing reserve suffices: it was made when the store was smaller.
      if error.isNoSpace, isFull { return }
      if !error.isUnsupported { throw error }
    }
    lengthBytes = max(lengthBytes, target)
    isFull = true
    assert(holds(target - creationBytes), "the reserve is smaller than its target")
  }

  /// Allocates each half by a call of its own, because deletes need one half alone: btrfs makes
  /// each call an extent, and frees an extent only when no part of it is left.
  private func grow(_ file: any StorageFile, to target: Int) throws(StorageError) {
    let half = UInt64(target / 2)
    do throws(StorageError) {
      try file.allocate(from: 0, to: half)
      try file.allocate(from: half, to: UInt64(target))
    } catch {
      // A part may have been allocated.
      try file.truncate(to: UInt64(lengthBytes))
      throw error
    }
  }

  /// Releases the half that deletes may use, also of a reserve that an earlier run has left.
  mutating func shrink(for target: Int) throws(StorageError) {
    guard lengthBytes > 0 else { return }
    let least = target / 2 + Int(clamping: try directory.creationBytes())
    let half = isFull ? max(least, lengthBytes / 2) : least
    if lengthBytes > half { try shrink(to: half) }
  }

  /// Releases all but `length` bytes.
  mutating func shrink(to length: Int) throws(StorageError) {
    assert(length <= lengthBytes, "shrinking must not make the reserve longer")
    let file = try directory.openFile(FileName.reserve, .readWrite)
    try file?.truncate(to: UInt64(length))
    lengthBytes = length
    isFull = false
  }

  /// Looks for space that another process of a shared store has reserved.
  mutating func find() throws(StorageError) {
    guard lengthBytes == 0 else { return }
    let file = try directory.openFile(FileName.reserve, .read)
    lengthBytes = Int(clamping: try file?.lengthBytes() ?? 0)
  }

  /// Reserves space again after ``release()``, or after an opening: the half for a compaction, or
  /// as much of it as is free.
  ///
  /// - Parameter leavesHalf: whether as much space stays free as is reserved, for deletes.
  mutating func restore(_ target: Int, leavesHalf: Bool = false) throws(StorageError) {
    guard lengthBytes == 0 else { return }
    creationBytes = 2 * Int(clamping: try directory.creationBytes())
    let kept = try directory.openOrCreateFile(FileName.reserve)
    var half = (target + creationBytes) / 2
    if leavesHalf {
      let free = Int(clamping: try directory.freeBytes())
      half = min(half, free / 2 / FileBlock.lengthBytes * FileBlock.lengthBytes)
    }
    // A disk with a quota may have less space than it says.
    while half >= FileBlock.lengthBytes {
      do throws(StorageError) {
        try kept.allocate(from: 0, to: UInt64(half))
        if leavesHalf {
          try kept.allocate(from: UInt64(half), to: UInt64(2 * half))
          try kept.truncate(to: UInt64(half))
        }
        lengthBytes = half
        return
      } catch {
        guard error.isNoSpace else { throw error }
        try kept.truncate(to: 0)
      }
      half /= 2
    }
  }

  mutating func release() throws(StorageError) {
    try directory.remove(FileName.reserve)
    lengthBytes = 0
    isFull = false
  }
}
