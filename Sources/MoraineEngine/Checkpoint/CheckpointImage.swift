import MoraineFormat
import MoraineStorage

/// The index at one moment, copied so that it can be written while the store goes on.
///
/// Safety of `@unchecked Sendable`: made on the actor, and handed over once, to the one who writes it.
final class CheckpointImage: @unchecked Sendable {
  private(set) var header: CheckpointHeader
  private let memory: ZeroedMemory
  private static let bucketsPerChunk = CheckpointHeader.chunkBytes / HashIndex.bucketBytes

  /// - Complexity: O(index), at the speed of copying memory.
  init(_ header: CheckpointHeader, of index: borrowing HashIndex) {
    var header = header
    header.level = UInt8(index.level)
    header.tagShift = UInt8(index.tagShift)
    header.split = UInt64(index.split)
    header.keyCount = UInt64(index.count)
    header.bucketCount = UInt64(index.buckets.count)
    header.overflowCount = UInt64(index.overflow.count)
    header.salt = Machine.randomNumber()
    let pageCount = header.bucketPageCount + header.overflowPageCount
    header.pageChecksums = Array(repeating: 0, count: pageCount)
    self.header = header
    memory = ZeroedMemory(
      byteCount: max(1, header.fileLengthBytes - header.lengthBytes), isHuge: false)
    Self.copy(index.buckets, to: memory.base)
    Self.copy(index.overflow, to: memory.base + (header.overflowOffset - header.lengthBytes))
  }

  deinit { memory.deallocate() }

  private static func copy(_ buckets: borrowing BucketArray, to target: UnsafeMutableRawPointer) {
    var number = 0
    while number < buckets.count {
      let count = min(bucketsPerChunk, buckets.count - number)
      (target + number * HashIndex.bucketBytes).copyMemory(
        from: buckets[number], byteCount: count * HashIndex.bucketBytes)
      number += count
    }
  }

  var lengthBytes: Int { header.fileLengthBytes }

  /// Writes it all, pages that hold nothing left out.
  func write(to file: any StorageFile) throws(StorageError) {
    let pageBytes = CheckpointHeader.pageBytes
    for page in header.pageChecksums.indices {
      header.pageChecksums[page] = header.checksum(ofPage: page, bytes(ofPage: page))
    }
    let head = header.encoded()
    try head.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
    for page in header.pageChecksums.indices {
      let place = offset(ofPage: page)
      try file.write(bytes(ofPage: page), at: UInt64(header.lengthBytes + place))
    }
    precondition(head.count == header.lengthBytes && pageBytes > 0, "checkpoint layout changed")
    // The space between the parts is a hole.
    try file.truncate(to: UInt64(header.fileLengthBytes))
  }

  private func offset(ofPage page: Int) -> Int {
    let pageBytes = CheckpointHeader.pageBytes
    guard page >= header.bucketPageCount else { return page * pageBytes }
    return header.overflowOffset - header.lengthBytes + (page - header.bucketPageCount) * pageBytes
  }

  private func bytes(ofPage page: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(
      start: memory.base + offset(ofPage: page), count: CheckpointHeader.pageBytes)
  }
}
