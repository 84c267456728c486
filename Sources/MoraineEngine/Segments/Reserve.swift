import MoraineStorage

/// A file that keeps back a little space for a full disk.
///
/// Deletes may use half of it, the other half is for what frees more: a compaction, or closing. It
/// grows with the store, to a share that a sparsely populated segment can be copied into. Each half
/// also covers what the file system takes to create a file (`creationBytes`): a delete may need a
/// new segment, a compaction its output, an opening after a kill a manifest.
struct Reserve {
  static let leastBytes = 64 << 10
  static let mostBytes = 4 << 20

  let directory: any StorageDirectory
  /// How much is kept back.
  private(set) var lengthBytes = 0
  /// Whether it is all there, so that puts need not give way to deletes.
  private(set) var isFull = false
  /// What both halves have for creating files; known when space is taken for the first time.
  private var creationBytes = 0

  /// - Parameter found: how much an earlier life has left.
  init(directory: any StorageDirectory, found: UInt64 = 0) {
    self.directory = directory
    lengthBytes = Int(clamping: found)
  }

  /// What to keep back beside so many live bytes: about a sixteenth.
  static func target(liveBytes: UInt64) -> Int {
    var target = leastBytes
    while target < mostBytes, UInt64(target) * 32 <= liveBytes { target *= 2 }
    return target
  }

  /// Whether all of a target is kept back.
  func holds(_ target: Int) -> Bool { isFull && lengthBytes >= target + creationBytes }

  /// Takes the space, if it is not taken yet. Where a file system cannot reserve, there is no
  /// reserve, and that is no error.
  mutating func keep(_ target: Int) throws(StorageError) {
    creationBytes = 2 * Int(clamping: try directory.creationBytes())
    guard !holds(target) else { return }
    let target = target + creationBytes
    do throws(StorageError) {
      try grow(try directory.openOrCreateFile(FileName.reserve), to: target)
    } catch {
      // What is there does for a store that was smaller.
      if error.isNoSpace, isFull { return }
      if !error.isUnsupported { throw error }
    }
    lengthBytes = max(lengthBytes, target)
    isFull = true
  }

  private func grow(_ file: any StorageFile, to target: Int) throws(StorageError) {
    do throws(StorageError) {
      try file.allocate(from: 0, to: UInt64(target))
    } catch {
      // A part may have been allocated.
      try file.truncate(to: UInt64(lengthBytes))
      throw error
    }
  }

  /// Gives deletes their half, also of what an earlier life of the store kept back.
  mutating func shrink(for target: Int) throws(StorageError) {
    guard lengthBytes > 0 else { return }
    let least = target / 2 + Int(clamping: try directory.creationBytes())
    let half = isFull ? max(least, lengthBytes / 2) : least
    if lengthBytes > half { try shrink(to: half) }
  }

  /// Gives up all but so many bytes.
  mutating func shrink(to length: Int) throws(StorageError) {
    let file = try directory.openFile(FileName.reserve, .readWrite)
    try file?.truncate(to: UInt64(length))
    lengthBytes = length
    isFull = false
  }

  /// Keeps back again, after ``release()``, as much as there is of a compaction's half.
  mutating func restore(_ target: Int) throws(StorageError) {
    guard lengthBytes == 0 else { return }
    creationBytes = 2 * Int(clamping: try directory.creationBytes())
    let kept = try directory.openOrCreateFile(FileName.reserve)
    var half = (target + creationBytes) / 2
    while half >= FileBlock.lengthBytes {
      do throws(StorageError) {
        try kept.allocate(from: 0, to: UInt64(half))
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
