import MoraineFormat
import MoraineStorage

/// Index pages of a checkpoint. Each page is checked when it is first needed, so that opening does
/// not cost a look at every key.
final class CheckpointPages {
  private static let bucketsPerPage = CheckpointHeader.pageBytes / HashIndex.bucketBytes

  let header: CheckpointHeader
  let mapping: any FileMapping
  private var isChecked: [Bool]
  /// Number of pages that were checked.
  private(set) var checkedCount = 0
  /// A bit for each bucket of the checkpoint: whether its chain was validated.
  private var validatedChains: [UInt64]
  /// Number of entries in the chains that were validated, before later changes.
  private var entryCount: UInt64 = 0
  /// The bucket that each overflow bucket was found to belong to, counted from 1; 0 when there is
  /// none.
  private var owners: [UInt32]
  /// The overflow buckets that ``retireOverflow(_:)`` has retired.
  private(set) var retiredOverflow: [Int] = []

  init(_ header: CheckpointHeader, _ mapping: any FileMapping) {
    self.header = header
    self.mapping = mapping
    isChecked = Array(repeating: false, count: header.pageChecksums.count)
    validatedChains = Array(repeating: 0, count: (Int(clamping: header.bucketCount) + 63) / 64)
    owners = Array(repeating: 0, count: Int(clamping: header.overflowCount))
  }

  var buckets: UnsafeMutableRawPointer { mapping.base + header.lengthBytes }
  var overflow: UnsafeMutableRawPointer { mapping.base + header.overflowOffset }

  /// Whether the page of a bucket is what was written.
  func checkBucket(_ number: Int) -> Bool {
    let page = number / Self.bucketsPerPage
    return page >= header.bucketPageCount
      || check(page, buckets + page * CheckpointHeader.pageBytes)
  }

  /// Whether the page of an overflow bucket is what was written.
  func checkOverflow(_ number: Int) -> Bool {
    let page = number / Self.bucketsPerPage
    return page >= header.overflowPageCount
      || check(page + header.bucketPageCount, overflow + page * CheckpointHeader.pageBytes)
  }

  /// Whether the chain of a bucket needs no validation: it was validated, or splits have created
  /// the bucket since the checkpoint was loaded. Later changes of a validated chain are our own.
  func isChainValidated(_ bucket: Int) -> Bool {
    bucket >= Int(clamping: header.bucketCount)
      || validatedChains[bucket >> 6] & 1 << UInt64(bucket & 63) != 0
  }

  /// - Parameter entries: the number of entries in the chain.
  func recordValidatedChain(_ bucket: Int, entries: Int) {
    assert(!isChainValidated(bucket), "a chain is validated twice")
    entryCount += UInt64(entries)
    validatedChains[bucket >> 6] |= 1 << UInt64(bucket & 63)
  }

  /// Whether the chains have as many entries as the header counts. All chains were validated. An
  /// entry too many would name no live record, and stay when its segment is removed.
  var hasCountedEntries: Bool { entryCount == header.keyCount }

  /// Records that an overflow bucket belongs to this bucket. Returns false when it belongs to
  /// another one: a bucket in two chains would be freed twice, and checksums do not detect that.
  /// Returns false too for an overflow bucket that the checkpoint does not have: only a forged link
  /// names one, and the index may have added a bucket with that number since.
  func claimOverflow(_ number: Int, for bucket: Int) -> Bool {
    guard number < owners.count else { return false }
    let owner = UInt32(truncatingIfNeeded: bucket + 1)
    guard owners[number] == 0 || owners[number] == owner else { return false }
    owners[number] = owner
    return true
  }

  /// Retires an overflow bucket that is no longer needed: it is not used again before all pages are
  /// checked, because another chain may name it too.
  ///
  /// - Returns: false for an overflow bucket that did not come from the checkpoint.
  func retireOverflow(_ number: Int) -> Bool {
    guard number < owners.count else { return false }
    assert(owners[number] != 0, "an overflow bucket is retired that no chain had")
    assert(owners[number] != .max, "an overflow bucket is retired twice")
    owners[number] = .max
    retiredOverflow.append(number)
    return true
  }

  /// Whether an overflow bucket was found in a chain, or was retired.
  func isClaimed(_ number: Int) -> Bool { owners[number] != 0 }

  /// Checks the pages of all buckets from `first` on.
  func checkBuckets(from first: Int) -> Bool {
    stride(from: first, to: Int(clamping: header.bucketCount), by: Self.bucketsPerPage)
      .allSatisfy(checkBucket)
  }

  /// Checks the pages of all overflow buckets from `first` on.
  func checkOverflowBuckets(from first: Int) -> Bool {
    stride(from: first, to: Int(clamping: header.overflowCount), by: Self.bucketsPerPage)
      .allSatisfy(checkOverflow)
  }

  private func check(_ page: Int, _ base: UnsafeMutableRawPointer) -> Bool {
    if isChecked[page] { return true }
    let bytes = UnsafeRawBufferPointer(start: base, count: CheckpointHeader.pageBytes)
    guard header.checksum(ofPage: page, bytes) == header.pageChecksums[page] else { return false }
    isChecked[page] = true
    checkedCount += 1
    return true
  }
}
