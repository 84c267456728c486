import MoraineFormat
import MoraineStorage

/// The index at one moment, copied so that it can be written while the store goes on.
///
/// Safety of `@unchecked Sendable`: made on the actor, and handed over once, to the one who writes it.
final class CheckpointImage: @unchecked Sendable {
  private(set) var header: CheckpointHeader
  private let memory: ZeroedMemory

  /// - Complexity: O(index), at the speed of copying memory.
  init(_ header: CheckpointHeader, of index: borrowing HashIndex) {
    var header = header
    header.level = UInt8(index.level)
    header.tagShift = UInt8(index.tagShift)
    header.split = UInt64(index.split)
    // Below zero when the index began with a forged count.
    header.keyCount = UInt64(clamping: index.count)
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
      let count = min(BucketArray.pageBuckets, buckets.count - number)
      (target + number * HashIndex.bucketBytes).copyMemory(
        from: buckets[number], byteCount: count * HashIndex.bucketBytes)
      number += count
    }
  }

  var lengthBytes: Int { header.fileLengthBytes }

  /// Writes it all to an empty file, a megabyte at a time.
  func write(to file: any StorageFile) throws(StorageError) {
    for page in header.pageChecksums.indices {
      header.pageChecksums[page] = header.checksum(ofPage: page, bytes(ofPage: page))
    }
    let head = header.encoded()
    precondition(head.count == header.lengthBytes, "checkpoint layout changed")
    try head.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
    let step = 16
    for page in stride(from: 0, to: header.pageChecksums.count, by: step) {
      let count = min(step, header.pageChecksums.count - page) * CheckpointHeader.pageBytes
      let place = page * CheckpointHeader.pageBytes
      let bytes = UnsafeRawBufferPointer(start: memory.base + place, count: count)
      try file.write(bytes, at: UInt64(header.lengthBytes + place))
    }
  }

  private func bytes(ofPage page: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(
      start: memory.base + page * CheckpointHeader.pageBytes, count: CheckpointHeader.pageBytes)
  }
}
