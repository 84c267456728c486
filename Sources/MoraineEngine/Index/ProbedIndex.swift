import MoraineStorage

/// What is asked of an index, live or of a snapshot: which entries a hash may be at.
protocol ProbedIndex: ~Copyable {
  var level: Int { get }
  var split: Int { get }
  var tagShift: Int { get }
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
}

extension ProbedIndex where Self: ~Copyable {
  /// True when this round renews the tags of the buckets it splits.
  @inline(__always)
  var renewsTags: Bool { level &- tagShift == HashIndex.levelsPerTag }

  /// The bucket a hash belongs to, and the tag it has there.
  @inline(__always)
  func place(_ hash: UInt64) -> (bucket: Int, tag: UInt64) {
    let low = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level)) &- 1))
    guard low < split else { return (low, (hash &>> UInt64(tagShift)) & 0xFFFF) }
    let bucket = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level &+ 1)) &- 1))
    let shift = renewsTags ? tagShift &+ HashIndex.levelsPerTag : tagShift
    return (bucket, (hash &>> UInt64(shift)) & 0xFFFF)
  }

  /// Begins to go through the entries that a hash may be at.
  ///
  /// - Complexity: one cache line, two for about a fifth of the keys.
  @inline(__always)
  func probe(_ hash: UInt64) -> Probe {
    let (number, tag) = place(hash)
    return Probe(bucket: bucket(number), tag: tag)
  }

  /// Whether there is an entry for just this record of a key with the hash.
  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool {
    var probe = probe(hash)
    while let slot = probe.next(self) {
      if slot.pointee & Address.mask == address.rawValue { return true }
    }
    return false
  }

  /// Fetches a hash's bucket ahead of use.
  @inline(__always)
  func prefetch(_ hash: UInt64) { CPU.prefetch(bucket(place(hash).bucket)) }
}

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
    candidates = CPU.slots(in: bucket, tagged: self.tag)
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
      candidates = CPU.slots(in: bucket, tagged: tag)
    }
  }
}
