import MoraineFormat
import MoraineStorage

extension HashIndex {
  /// The index as a checkpoint has it. Its pages are checked as ``admit(_:)`` is asked.
  ///
  /// Whole chunks stay where they were mapped; the last of each kind, in which the index will grow,
  /// is copied, and so checked at once.
  ///
  /// - Returns: nil when one of these is damaged.
  /// - Throws: `.limitExceeded` when the system gives no memory.
  init?(_ pages: CheckpointPages) throws(StoreError) {
    self.init(empty: IndexMemory())
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
    isLazy = true
    needsCare = true
    let mapped = BucketArray.firstOfLastChunk(bucketCount)
    let mappedOverflow = BucketArray.firstOfLastChunk(overflowCount)
    guard tagShift == Self.tagShift(atLevel: level), pages.checkBuckets(from: mapped),
      pages.checkOverflowBuckets(from: mappedOverflow)
    else { return nil }
    memory.keep(pages.mapping, byteCount: (mapped + mappedOverflow) * Self.bucketBytes)
    buckets.adopt(pages.buckets, count: bucketCount)
    overflow.adopt(pages.overflow, count: overflowCount)
  }

  /// The tag's first bit in an index that has grown to a level.
  private static func tagShift(atLevel level: Int) -> Int {
    max(initialLevel, (level - 1) / levelsPerTag * levelsPerTag)
  }

  /// Checks all that a look-up, a change or a removal of a hash touches.
  ///
  /// - Returns: false when a page is not what was written: the index must be made from the log.
  func admit(_ hash: UInt64) -> Bool { admit(bucket: place(hash).bucket) }

  /// Checks what the next split touches.
  func admitSplit() -> Bool { admit(bucket: split) }

  func admit(bucket number: Int) -> Bool {
    guard let pages else { return true }
    guard pages.checkBucket(number) else { return false }
    // One link for each overflow bucket at most; more are a circle, which checksums do not tell
    // from a chain.
    var left = overflow.count
    var last = buckets[number][Self.slotsPerBucket - 1]
    while Self.isLink(last) {
      let next = Self.linkTarget(last)
      guard left > 0, next < overflow.count, pages.checkOverflow(next),
        pages.claimOverflow(next, for: number)
      else { return false }
      left -= 1
      last = overflow[next][Self.slotsPerBucket - 1]
    }
    return true
  }

  /// What one step of ``admitNext(_:)`` does at most. With 32 pages of 64 KiB it takes less than a
  /// millisecond.
  struct AdmissionStep {
    var pages = 32
    var buckets = 1 << 14

    static var whole: AdmissionStep { AdmissionStep(pages: .max, buckets: .max) }
  }

  /// Checks the next pages that were not checked yet, and finds the overflow buckets that no chain
  /// has. After the last one, ``isLazy`` is false.
  ///
  /// - Returns: as ``admit(_:)``.
  mutating func admitNext(_ step: AdmissionStep = AdmissionStep()) -> Bool {
    guard isLazy, let pages else { return true }
    let pageGoal = pages.checkedCount.addingReportingOverflow(step.pages)
    let lastPage = pageGoal.overflow ? Int.max : pageGoal.partialValue
    var left = step.buckets
    while admittedCount < buckets.count {
      guard left > 0, pages.checkedCount < lastPage else { return true }
      guard admit(bucket: admittedCount) else { return false }
      admittedCount += 1
      left -= 1
    }
    let loadedCount = Int(clamping: pages.header.overflowCount)
    while admittedOverflowCount < loadedCount {
      guard left > 0, pages.checkedCount < lastPage else { return true }
      guard admitUnclaimed(admittedOverflowCount, pages) else { return false }
      admittedOverflowCount += 1
      left -= 1
    }
    isLazy = false
    for number in pages.retiredOverflow { freeOverflow.insert(number) }
    self.pages = nil
    return true
  }

  /// Checks an overflow bucket, and gives it free if no bucket's chain has it. All buckets were
  /// admitted before.
  ///
  /// - Returns: as ``admit(_:)``.
  private mutating func admitUnclaimed(_ number: Int, _ pages: CheckpointPages) -> Bool {
    guard pages.checkOverflow(number) else { return false }
    if pages.isClaimed(number) { return true }
    let bucket = overflow[number]
    guard (0..<Self.slotsPerBucket).allSatisfy({ bucket[$0] == 0 }) else { return false }
    freeOverflow.insert(number)
    return true
  }

  /// Checks everything; from then on nothing is asked any more.
  ///
  /// - Returns: as ``admit(_:)``.
  /// - Complexity: O(index), the first time.
  mutating func admitAll() -> Bool { admitNext(.whole) }

  /// Takes out every entry whose segment slot is among those. Everything was admitted before.
  ///
  /// - Complexity: O(index).
  mutating func removeAll(in slots: Set<Int>) {
    for number in 0..<buckets.count { removeAll(in: slots, from: buckets[number]) }
    for number in 0..<overflow.count { removeAll(in: slots, from: overflow[number]) }
  }

  /// Every address that an entry names.
  ///
  /// - Complexity: O(index).
  func addresses() -> [Address] {
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
