import MoraineFormat
import MoraineStorage

/// The index at one moment, which is written while the store continues.
///
/// Safety of `@unchecked Sendable`: the image is made on the actor, and passed once to the thread
/// that writes it. The part of the index that it reads is frozen: see ``IndexMemory``.
final class CheckpointImage: @unchecked Sendable {
  /// Number of pages that are written to the file at once.
  private static let stepCount = 16

  private(set) var header: CheckpointHeader
  private let index: FrozenIndex

  /// - Complexity: O(index), a byte for about 500 bytes of the index. Pages that change while the
  ///   image is written are copied then, one by one.
  init(_ header: CheckpointHeader, of index: inout HashIndex) {
    var header = header
    index.describe(in: &header)
    header.salt = SystemRandom.number()
    let pageCount = header.bucketPageCount + header.overflowPageCount
    header.pageChecksums = Array(repeating: 0, count: pageCount)
    self.header = header
    self.index = index.freeze()
  }

  var lengthBytes: Int { header.fileLengthBytes }

  /// Writes the image to an empty file, a megabyte at a time. The header, which contains the
  /// checksums of the pages, comes last.
  func write(to file: any StorageFile) throws(StorageError) {
    let pageBytes = CheckpointHeader.pageBytes
    let buffer = UnsafeMutableRawBufferPointer.allocate(
      byteCount: Self.stepCount * pageBytes, alignment: FrozenIndex.pageAlignment)
    defer { buffer.deallocate() }
    for first in stride(from: 0, to: header.pageChecksums.count, by: Self.stepCount) {
      let count = min(Self.stepCount, header.pageChecksums.count - first)
      for page in first..<first + count {
        let start = (page - first) * pageBytes
        let target = UnsafeMutableRawBufferPointer(rebasing: buffer[start..<start + pageBytes])
        index.copy(page: page, of: header, to: target)
        header.pageChecksums[page] = header.checksum(ofPage: page, UnsafeRawBufferPointer(target))
      }
      let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<(count * pageBytes)])
      try file.write(bytes, at: UInt64(header.lengthBytes + first * pageBytes))
    }
    let head = header.encoded()
    precondition(head.count == header.lengthBytes, "checkpoint layout changed")
    try head.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
  }
}
