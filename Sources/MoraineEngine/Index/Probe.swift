/// The entries that a hash may be at, one after the other.
struct Probe {
  private var bucket: UnsafeMutablePointer<UInt64>
  private var position = 0
  private let tag: UInt64

  @inline(__always)
  init(bucket: UnsafeMutablePointer<UInt64>, tag: UInt64) {
    self.bucket = bucket
    self.tag = tag
  }

  /// The next entry with the tag; nil when there are no more.
  @inline(__always)
  mutating func next<Index: ProbedIndex & ~Copyable>(
    _ index: borrowing Index
  ) -> UnsafeMutablePointer<UInt64>? {
    while true {
      while position < HashIndex.slotsPerBucket {
        let slot = bucket[position]
        position &+= 1
        if slot &>> 48 == tag, slot != 0, !HashIndex.isLink(slot) {
          return bucket + (position &- 1)
        }
      }
      let last = bucket[HashIndex.slotsPerBucket &- 1]
      guard HashIndex.isLink(last) else { return nil }
      bucket = index.overflowBucket(HashIndex.linkTarget(last))
      position = 0
    }
  }
}
