import MoraineFormat
import MoraineStorage

/// The index pages of a checkpoint, each checked when it is first needed, so that opening does not
/// cost a look at every key.
final class CheckpointPages {
  private static let bucketsPerPage = CheckpointHeader.pageBytes / HashIndex.bucketBytes

  let header: CheckpointHeader
  let mapping: any FileMapping
  private var isChecked: [Bool]

  init(_ header: CheckpointHeader, _ mapping: any FileMapping) {
    self.header = header
    self.mapping = mapping
    isChecked = Array(repeating: false, count: header.pageChecksums.count)
  }

  var buckets: UnsafeMutableRawPointer { mapping.base + header.lengthBytes }
  var overflow: UnsafeMutableRawPointer { mapping.base + header.overflowOffset }

  /// Whether the page of a bucket is what was written.
  func checkBucket(_ number: Int) -> Bool {
    let page = number / Self.bucketsPerPage
    return page >= header.bucketPageCount
      || check(page, buckets + page * CheckpointHeader.pageBytes)
  }

  /// The same for an overflow bucket.
  func checkOverflow(_ number: Int) -> Bool {
    let page = number / Self.bucketsPerPage
    return page >= header.overflowPageCount
      || check(page + header.bucketPageCount, overflow + page * CheckpointHeader.pageBytes)
  }

  /// Checks the pages of all buckets from this one on.
  func checkBuckets(from first: Int) -> Bool {
    stride(from: first, to: Int(clamping: header.bucketCount), by: Self.bucketsPerPage)
      .allSatisfy(checkBucket)
  }

  /// The same for overflow buckets.
  func checkOverflowBuckets(from first: Int) -> Bool {
    stride(from: first, to: Int(clamping: header.overflowCount), by: Self.bucketsPerPage)
      .allSatisfy(checkOverflow)
  }

  private func check(_ page: Int, _ base: UnsafeMutableRawPointer) -> Bool {
    if isChecked[page] { return true }
    let bytes = UnsafeRawBufferPointer(start: base, count: CheckpointHeader.pageBytes)
    guard header.checksum(ofPage: page, bytes) == header.pageChecksums[page] else { return false }
    isChecked[page] = true
    return true
  }
}
