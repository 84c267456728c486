import MoraineStorage

/// The entries that a hash may be at, one after the other.
struct Probe {
  private var bucket: UnsafeMutablePointer<UInt64>
  /// A bit for each slot of the bucket that has the tag and was not looked at yet, in a byte each.
  private var candidates: UInt64
  private let tag: UInt16

  @inline(__always)
  init(bucket: UnsafeMutablePointer<UInt64>, tag: UInt64) {
    self.bucket = bucket
    self.tag = UInt16(truncatingIfNeeded: tag)
    candidates = Machine.slots(in: bucket, tagged: self.tag)
  }

  /// The next entry with the tag; nil when there are no more.
  @inline(__always)
  mutating func next<Index: ProbedIndex & ~Copyable>(
    _ index: borrowing Index
  ) -> UnsafeMutablePointer<UInt64>? {
    while true {
      while candidates != 0 {
        let position = candidates.trailingZeroBitCount &>> 3
        candidates &= candidates &- 1
        let slot = bucket[position]
        // What is free, and a link, look like entries with the tag 0.
        if slot != 0, !HashIndex.isLink(slot) { return bucket + position }
      }
      let last = bucket[HashIndex.slotsPerBucket &- 1]
      guard HashIndex.isLink(last) else { return nil }
      bucket = index.overflowBucket(HashIndex.linkTarget(last))
      candidates = Machine.slots(in: bucket, tagged: tag)
    }
  }
}
