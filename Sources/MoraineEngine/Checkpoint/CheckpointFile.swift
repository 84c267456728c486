import MoraineFormat
import MoraineStorage

/// Functions for the checkpoint's file in the store's directory.
enum CheckpointFile {
  /// Upper bound for the checkpoint of an empty index, in bytes.
  private static let emptyBytes: UInt64 = 1 << 20
  /// Largest number of checkpoint bytes for each byte of the log.
  private static let sparsest: UInt64 = 8

  /// Writes an image as the newest checkpoint.
  ///
  /// The records that the image covers must be durable already: a checkpoint never covers more than
  /// the log.
  ///
  /// - Throws: `.noSpace` and similar errors; nothing has changed then. A failure from the sync on
  ///   poisons.
  static func write(
    _ image: CheckpointImage, as name: String, _ directory: any StorageDirectory,
    _ pipeline: CommitPipeline
  ) throws(StoreError) {
    try pipeline.checkPresence()
    let file: any StorageFile
    do throws(StorageError) {
      try directory.remove(FileName.temporaryCheckpoint)
      file = try directory.createFile(FileName.temporaryCheckpoint)
      try image.write(to: file)
    } catch {
      try storing { () throws(StorageError) in try directory.remove(FileName.temporaryCheckpoint) }
      throw StoreError(error)
    }
    if let poison = pipeline.poison { throw poison }
    try pipeline.checkPresence()
    do throws(StorageError) {
      try file.synchronize(.full)
      try directory.rename(FileName.temporaryCheckpoint, to: name)
      try directory.synchronize()
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
  }

  /// Removes checkpoints that a newer one has replaced.
  static func remove(
    _ names: [String], _ directory: any StorageDirectory
  ) throws(StoreError) {
    try storing { () throws(StorageError) in
      for name in names { try directory.remove(name) }
    }
  }

  /// Opens a checkpoint. Returns its header and its pages; nil when it does not exist, when a newer
  /// version has written it, or when it is longer than the index of the log can be.
  ///
  /// - Parameter logBytes: the bytes of the log. A record takes at least 24 bytes. An index has
  ///   fewer than 16 slots of 8 bytes for each of its keys, or compaction makes it smaller: this is
  ///   less than eight times the log, and the size of an empty index. A longer file would take
  ///   memory that the log does not account for. Trees of few keys each, with 4 KiB for a tree, can
  ///   be longer: opening then reads the log, which is short.
  /// - Throws: `.corrupted` when the header is damaged, or the file has another length than the
  ///   header says; `.io`, `.limitExceeded` when the kernel has no more mappings.
  static func open(
    _ name: String, _ directory: any StorageDirectory, mapped: Bool, logBytes: UInt64
  ) throws(StoreError) -> CheckpointPages? {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { return nil }
    let length = Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
    guard UInt64(length) <= logBytes &* sparsest &+ emptyBytes,
      let header = try header(file, length)
    else { return nil }
    guard header.fileLengthBytes == length else {
      throw .indexDamaged("the index checkpoint does not have the length in its header", name)
    }
    let mapping = try storing { () throws(StorageError) in
      mapped
        ? try file.mapPrivately(lengthBytes: length)
        : try file.readPrivately(lengthBytes: length)
    }
    return CheckpointPages(header, mapping)
  }

  private static func header(
    _ file: any StorageFile, _ length: Int
  ) throws(StoreError) -> CheckpointHeader? {
    let first = try read(file, min(length, 4096))
    let claim = try decoded(first, file.name) { (raw) throws(FormatError) in
      try CheckpointHeader.claimedLength(raw)
    }
    guard let claim else { return nil }
    guard claim <= length else { throw damagedHeader(file.name) }
    let head = claim == first.count ? first : try read(file, claim)
    return try decoded(head, file.name) { (raw) throws(FormatError) in
      try CheckpointHeader(decoding: raw)
    }
  }

  private static func read(_ file: any StorageFile, _ count: Int) throws(StoreError) -> [UInt8] {
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count), alignment: 8)
    defer { target.deallocate() }
    let part = UnsafeMutableRawBufferPointer(rebasing: target[..<count])
    let got = try storing { () throws(StorageError) in try file.read(into: part, at: 0) }
    return Array(target[..<got])
  }

  /// Returns the result of the decoder; nil for bytes of a newer version, which are undamaged.
  private static func decoded<Value>(
    _ bytes: [UInt8], _ name: String,
    _ decoder: (UnsafeRawBufferPointer) throws(FormatError) -> Value
  ) throws(StoreError) -> Value? {
    do throws(FormatError) { return try bytes.withBytes(decoder) } catch {
      guard error.kind == .damaged else { return nil }
      throw damagedHeader(name)
    }
  }

  /// The log contains the same facts as a checkpoint, and more: the error asks for no backup.
  private static func damagedHeader(_ name: String) -> StoreError {
    .indexDamaged("the header of the index checkpoint is damaged", name)
  }
}

/// The index at one moment, which is written while the store continues.
///
/// Safety of `@unchecked Sendable`: the image is made on the actor, and passed once to the thread
/// that writes it. The part of the index that it reads is frozen: see ``IndexMemory``.
final class CheckpointImage: @unchecked Sendable {
  /// Number of pages that are written to the file at once.
  private static let stepCount = 16

  private(set) var header: CheckpointHeader
  private let index: FrozenIndex
  private let trees: FrozenTrees

  /// - Complexity: O(index), a byte for about 500 bytes of the index. Pages that change while the
  ///   image is written are copied then, one by one.
  init(
    _ header: CheckpointHeader, of index: inout HashIndex, _ trees: inout TreeIndex
  ) {
    var header = header
    index.describe(in: &header)
    trees.describe(in: &header)
    header.salt = SystemRandom.number()
    let pageCount =
      header.bucketPageCount + header.overflowPageCount + header.treePageCount
    header.pageChecksums = Array(repeating: 0, count: pageCount)
    self.header = header
    self.index = index.freeze()
    self.trees = trees.freeze()
  }

  var lengthBytes: Int { header.fileLengthBytes }

  /// Writes the image to an empty file, a megabyte at a time. The header, which contains the
  /// checksums of the pages, comes last.
  func write(to file: any StorageFile) throws(StorageError) {
    let pageBytes = CheckpointHeader.pageBytes
    let buffer = UnsafeMutableRawBufferPointer.allocate(
      byteCount: Self.stepCount * pageBytes, alignment: FrozenIndex.pageAlignment)
    defer { buffer.deallocate() }
    let firstTreePage = header.bucketPageCount + header.overflowPageCount
    var nodes = NodeQueue(trees.roots(of: header))
    for first in stride(from: 0, to: header.pageChecksums.count, by: Self.stepCount) {
      let count = min(Self.stepCount, header.pageChecksums.count - first)
      for page in first..<first + count {
        let start = (page - first) * pageBytes
        let target = UnsafeMutableRawBufferPointer(rebasing: buffer[start..<start + pageBytes])
        if page < firstTreePage {
          index.copy(page: page, of: header, to: target)
        } else {
          nodes.copyPage(of: trees, to: target)
        }
        header.pageChecksums[page] = header.checksum(ofPage: page, UnsafeRawBufferPointer(target))
      }
      let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<(count * pageBytes)])
      try file.write(bytes, at: UInt64(header.lengthBytes + first * pageBytes))
    }
    precondition(nodes.next == header.nodeCount, "the trees have other nodes than were counted")
    let head = header.encoded()
    precondition(head.count == header.lengthBytes, "checkpoint layout changed")
    try head.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
  }
}

/// The nodes of the trees in the order in which a checkpoint has them: the roots, and then the
/// children of each node. So the leaves of a tree follow each other in the order of their keys.
private struct NodeQueue {
  /// The numbers in the index, by the numbers in the checkpoint.
  private var nodes: [UInt32]
  /// Number of nodes that were copied.
  private(set) var next = 0

  init(_ roots: [UInt32]) { nodes = roots }

  /// Copies the next nodes to a page of the checkpoint. Zeros follow the last node.
  mutating func copyPage(of trees: borrowing FrozenTrees, to target: UnsafeMutableRawBufferPointer)
  {
    target.initializeMemory(as: UInt8.self, repeating: 0)
    guard let base = target.baseAddress else { return }
    for place in 0..<CheckpointHeader.nodesPerPage where next < nodes.count {
      trees.copy(Int(nodes[next]), to: base + place * CheckpointHeader.nodeBytes, &nodes)
      next += 1
    }
  }
}
