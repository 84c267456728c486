import MoraineFormat
import MoraineStorage

extension HashIndex {
  /// The index as a checkpoint has it. Its pages are checked as ``admit(_:)`` is asked.
  ///
  /// Whole chunks stay where they were mapped; the last of each kind, in which the index will grow,
  /// is copied, and so checked at once.
  ///
  /// - Returns: nil when one of these is damaged.
  init?(_ pages: CheckpointPages) {
    let header = pages.header
    level = Int(header.level)
    split = Int(clamping: header.split)
    tagShift = Int(header.tagShift)
    count = Int(clamping: header.keyCount)
    let bucketCount = Int(clamping: header.bucketCount)
    let overflowCount = Int(clamping: header.overflowCount)
    self.pages = pages
    isLazy = true
    guard pages.checkBuckets(from: BucketArray.firstOfLastChunk(bucketCount)),
      pages.checkOverflowBuckets(from: BucketArray.firstOfLastChunk(overflowCount))
    else { return nil }
    buckets.adopt(pages.buckets, count: bucketCount)
    overflow.adopt(pages.overflow, count: overflowCount)
  }

  /// Makes sure of all that a look-up, a change or a removal of a hash touches.
  ///
  /// - Returns: false when a page is not what was written: the index must be made anew.
  func admit(_ hash: UInt64) -> Bool {
    admit(bucket: place(hash).bucket)
  }

  private func admit(bucket number: Int) -> Bool {
    guard let pages else { return true }
    guard pages.checkBucket(number) else { return false }
    var last = buckets[number][Self.slotsPerBucket - 1]
    while Self.isLink(last) {
      let next = Self.linkTarget(last)
      guard next < overflow.count, pages.checkOverflow(next) else { return false }
      last = overflow[next][Self.slotsPerBucket - 1]
    }
    return true
  }

  /// Makes sure of what the next split touches.
  func admitSplit() -> Bool {
    admit(bucket: split)
  }

  /// Makes sure of everything; from then on nothing is asked any more.
  ///
  /// - Returns: as ``admit(_:)``.
  /// - Complexity: O(index), the first time.
  mutating func admitAll() -> Bool {
    guard isLazy else { return true }
    guard pages?.checkBuckets(from: 0) != false, pages?.checkOverflowBuckets(from: 0) != false
    else {
      return false
    }
    isLazy = false
    return true
  }

  /// Takes out every entry whose segment slot is among those. Everything was admitted before.
  ///
  /// - Complexity: O(index).
  mutating func removeAll(in slots: Set<Int>) {
    for number in 0..<buckets.count { removeAll(in: slots, from: buckets[number]) }
    for number in 0..<overflow.count { removeAll(in: slots, from: overflow[number]) }
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
