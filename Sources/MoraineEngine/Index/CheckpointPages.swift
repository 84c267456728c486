import MoraineFormat
import MoraineStorage

/// The places of records that a checkpoint can name.
struct CoveredPlaces {
  /// The end of the covered part of each segment, by slot; 0 for a slot of no segment.
  private var ends: [Int]

  init(_ segments: [CheckpointHeader.Segment]) {
    ends = Array(repeating: 0, count: (segments.map { Int($0.slot) }.max() ?? -1) + 1)
    for segment in segments { ends[Int(segment.slot)] = Int(clamping: segment.endOffset) }
  }

  /// Whether an entry of the checkpoint can name this place. An entry that named a record after the
  /// covered part would make the recovery count that record as one that replaces itself: the
  /// record would be live, and its segment would not.
  @inline(__always)
  func contains(_ address: Address) -> Bool {
    address.slot < ends.count && address.offset < ends[address.slot]
  }
}

/// Index pages of a checkpoint. Each page is checked when it is first needed, so that opening does
/// not cost a look at every key.
final class CheckpointPages {
  private static let bucketsPerPage = CheckpointHeader.pageBytes / HashIndex.bucketBytes

  let header: CheckpointHeader
  let mapping: any FileMapping
  let places: CoveredPlaces
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
    places = CoveredPlaces(header.segments)
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
    // No chain of the checkpoint need have had it: it may be one that was admitted as free, and has
    // been used since.
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

  /// Returns the number of entries in one bucket; nil when one of them names no covered place.
  fileprivate func entryCount(_ bucket: UnsafeMutablePointer<UInt64>) -> Int? {
    var count = 0
    for slot in 0..<HashIndex.slotsPerBucket
    where bucket[slot] != 0 && !HashIndex.isLink(bucket[slot]) {
      guard places.contains(Address(rawValue: bucket[slot] & Address.mask)) else { return nil }
      count += 1
    }
    return count
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

extension HashIndex {
  /// Creates the index from a checkpoint. ``validatePages(_:)`` checks its pages when they are
  /// needed.
  ///
  /// Whole chunks stay where they were mapped. The last chunk of each kind, in which the index will
  /// grow, is copied, and is therefore checked at once.
  ///
  /// - Parameter memory: the memory of the index; tests replace it.
  /// - Returns: nil when one of these is damaged, or when the tags do not fit the level.
  /// - Throws: `.limitExceeded` when the system gives no memory.
  init?(_ pages: CheckpointPages, memory: IndexMemory = IndexMemory()) throws(StoreError) {
    self.init(empty: memory)
    // The last chunks of both kinds are copied, and the index may grow at once.
    try secure(insertions: 1)
    let header = pages.header
    level = Int(header.level)
    split = Int(clamping: header.split)
    tagShift = Int(header.tagShift)
    count = Int(clamping: header.keyCount)
    let bucketCount = Int(clamping: header.bucketCount)
    let overflowCount = Int(clamping: header.overflowCount)
    self.pages = pages
    hasUnvalidatedPages = true
    needsCare = true
    let mapped = BucketArray.firstOfLastChunk(bucketCount)
    let mappedOverflow = BucketArray.firstOfLastChunk(overflowCount)
    guard tagShift == Self.tagShift(atLevel: level), pages.checkBuckets(from: mapped),
      pages.checkOverflowBuckets(from: mappedOverflow)
    else { return nil }
    memory.keep(pages.mapping, byteCount: (mapped + mappedOverflow) * Self.bucketBytes)
    let usedSpare = buckets.adopt(pages.buckets, count: bucketCount)
    let usedAnother = overflow.adopt(pages.overflow, count: overflowCount)
    isShort = usedSpare || usedAnother
  }

  /// Returns the first bit of the tags in an index that has grown to a level.
  private static func tagShift(atLevel level: Int) -> Int {
    max(initialLevel, (level - 1) / levelsPerTag * levelsPerTag)
  }

  /// Checks all pages that a look-up, a change or a removal of a hash touches.
  ///
  /// - Returns: false when a page is not what was written: the index must be made from the log.
  func validatePages(_ hash: UInt64) -> Bool { validatePages(bucket: place(hash).bucket) }

  /// Checks the pages that the next split touches.
  func validateSplitBucket() -> Bool { validatePages(bucket: split) }

  func validatePages(bucket number: Int) -> Bool {
    guard let pages, !pages.isChainValidated(number) else { return true }
    guard pages.checkBucket(number) else { return false }
    // A chain has at most one link for each overflow bucket. More links are a circle, which
    // checksums cannot distinguish from a chain.
    var left = overflow.count
    guard var entries = pages.entryCount(buckets[number]) else { return false }
    var last = buckets[number][Self.slotsPerBucket - 1]
    while Self.isLink(last) {
      let next = Self.linkTarget(last)
      guard left > 0, next < overflow.count, pages.checkOverflow(next),
        pages.claimOverflow(next, for: number)
      else { return false }
      guard let more = pages.entryCount(overflow[next]) else { return false }
      left -= 1
      entries += more
      last = overflow[next][Self.slotsPerBucket - 1]
    }
    pages.recordValidatedChain(number, entries: entries)
    return true
  }

  /// The most work of one step of ``validateNextPages(_:)``. A step of 32 pages of 64 KiB takes
  /// less than a millisecond.
  struct ValidationStep {
    var pages = 32
    var buckets = 1 << 14

    static var whole: ValidationStep { ValidationStep(pages: .max, buckets: .max) }
  }

  /// Checks the next pages that were not checked yet, and finds the overflow buckets that belong to
  /// no chain. After the last page, ``hasUnvalidatedPages`` is false.
  ///
  /// - Returns: as ``validatePages(_:)``.
  mutating func validateNextPages(_ step: ValidationStep = ValidationStep()) -> Bool {
    assert(hasUnvalidatedPages == (self.pages != nil), "the flag of the pages is wrong")
    guard hasUnvalidatedPages, let pages else { return true }
    assert(admittedCount <= buckets.count, "more buckets were validated than exist")
    let pageGoal = pages.checkedCount.addingReportingOverflow(step.pages)
    let lastPage = pageGoal.overflow ? Int.max : pageGoal.partialValue
    var left = step.buckets
    while admittedCount < buckets.count {
      guard left > 0, pages.checkedCount < lastPage else { return true }
      guard validatePages(bucket: admittedCount) else { return false }
      admittedCount += 1
      left -= 1
    }
    guard pages.hasCountedEntries else { return false }
    let loadedCount = Int(clamping: pages.header.overflowCount)
    while admittedOverflowCount < loadedCount {
      guard left > 0, pages.checkedCount < lastPage else { return true }
      guard admitUnclaimed(admittedOverflowCount, pages) else { return false }
      admittedOverflowCount += 1
      left -= 1
    }
    hasUnvalidatedPages = false
    for number in pages.retiredOverflow { freeOverflow.insert(number) }
    self.pages = nil
    return true
  }

  /// Checks an overflow bucket, and frees it if it belongs to no bucket's chain. All buckets were
  /// validated before.
  ///
  /// - Returns: as ``validatePages(_:)``.
  private mutating func admitUnclaimed(_ number: Int, _ pages: CheckpointPages) -> Bool {
    assert(admittedCount == buckets.count, "a chain that was not validated may have this bucket")
    guard pages.checkOverflow(number) else { return false }
    if pages.isClaimed(number) { return true }
    let bucket = overflow[number]
    guard (0..<Self.slotsPerBucket).allSatisfy({ bucket[$0] == 0 }) else { return false }
    freeOverflow.insert(number)
    return true
  }

  /// Checks all pages. No later operation has to validate a page.
  ///
  /// - Returns: as ``validatePages(_:)``.
  /// - Complexity: O(index), the first time.
  mutating func validateAllPages() -> Bool { validateNextPages(.whole) }

  /// Removes every entry whose segment slot is in `slots`. All pages were validated before.
  ///
  /// - Complexity: O(index).
  mutating func removeAll(in slots: Set<Int>) {
    precondition(!hasUnvalidatedPages, "entries are removed from unvalidated pages")
    precondition(!isFrozen, "entries are removed from pages that a snapshot has")
    for number in 0..<buckets.count { removeAll(in: slots, from: buckets[number]) }
    for number in 0..<overflow.count { removeAll(in: slots, from: overflow[number]) }
  }

  /// Returns every address that an entry names.
  ///
  /// - Complexity: O(index).
  func addresses() -> [Address] {
    assert(!hasUnvalidatedPages, "addresses are read from unvalidated pages")
    var result: [Address] = []
    result.reserveCapacity(count)
    for number in 0..<buckets.count { collect(buckets[number], into: &result) }
    for number in 0..<overflow.count { collect(overflow[number], into: &result) }
    return result
  }

  private func collect(_ bucket: UnsafeMutablePointer<UInt64>, into result: inout [Address]) {
    for position in 0..<Self.slotsPerBucket {
      let slot = bucket[position]
      if slot != 0, !Self.isLink(slot) { result.append(Address(rawValue: slot & Address.mask)) }
    }
  }

  private mutating func removeAll(in slots: Set<Int>, from bucket: UnsafeMutablePointer<UInt64>) {
    for position in 0..<Self.slotsPerBucket {
      let slot = bucket[position]
      guard slot != 0, !Self.isLink(slot) else { continue }
      guard slots.contains(Address(rawValue: slot & Address.mask).slot) else { continue }
      bucket[position] = 0
      count -= 1
    }
  }
}
