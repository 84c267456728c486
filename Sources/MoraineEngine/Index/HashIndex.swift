import MoraineStorage

/// The hashed index: from a key's hash to the addresses it may be at. Keys are not stored; the
/// caller confirms a candidate by the key in its record.
///
/// Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980):
/// one bucket splits at a time, so that no insertion pays for rehashing the world. A bucket is one
/// cache line of eight slots; a slot is a 16-bit tag over a 48-bit address, 0 when free. A bucket
/// that overflows has a link to a further one in its last slot.
///
/// ```
///   63        48 47                                   0
///  +------------+--------------------------------------+
///  |    tag     |  segment slot (20) | offset / 4 (28) |   segment slot 0xFFFFF: a link
///  +------------+--------------------------------------+
/// ```
///
/// The tag is the hash's bits from `tagShift` on. A split needs the hash bit just above the
/// bucket's own, which the tag has; so growth never touches a record until the table has grown
/// 2^10-fold. Then the entries of each splitting bucket get new tags, from the keys in their
/// records.
struct HashIndex: ~Copyable {
  static let slotsPerBucket = 8
  static let bucketBytes = 64
  static let initialLevel = 10
  /// How many levels a tag's bits serve before the tags are renewed: 6 of 16 bits stay selective.
  static let levelsPerTag = 10
  static let linkSlot: UInt64 = 0xFFFFF

  var buckets = BucketArray()
  var overflow = BucketArray()
  var freeOverflow: [Int] = []
  /// 2^level buckets existed when this round of splits began.
  var level = Self.initialLevel
  /// The next bucket to split in this round.
  var split = 0
  var tagShift = Self.initialLevel
  var count = 0
  /// The entries of the bucket that is being split; kept so that a split allocates nothing.
  var staying: [UInt64] = []
  var rising: [UInt64] = []
  /// Where it was loaded from, when it was: keeps that memory alive.
  var pages: CheckpointPages?
  /// While true, what an operation touches must be admitted before.
  var isLazy = false

  init() {
    buckets.grow(to: 1 << Self.initialLevel)
  }

  /// Memory in use, in bytes.
  var byteCount: Int { (buckets.count + overflow.count - freeOverflow.count) * Self.bucketBytes }

  /// True when this round renews the tags of the buckets it splits.
  @inline(__always)
  var renewsTags: Bool { level &- tagShift == Self.levelsPerTag }

  /// The bucket a hash belongs to, and the tag it has there.
  @inline(__always)
  func place(_ hash: UInt64) -> (bucket: Int, tag: UInt64) {
    let low = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level)) &- 1))
    guard low < split else { return (low, (hash &>> UInt64(tagShift)) & 0xFFFF) }
    let bucket = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level &+ 1)) &- 1))
    let shift = renewsTags ? tagShift &+ Self.levelsPerTag : tagShift
    return (bucket, (hash &>> UInt64(shift)) & 0xFFFF)
  }

  @inline(__always)
  static func isLink(_ slot: UInt64) -> Bool {
    (slot & Address.mask) &>> Address.offsetBits == linkSlot
  }

  @inline(__always)
  static func linkTarget(_ slot: UInt64) -> Int {
    Int(truncatingIfNeeded: slot & ((1 &<< Address.offsetBits) &- 1))
  }

  static func link(to bucket: Int) -> UInt64 {
    linkSlot << Address.offsetBits | UInt64(bucket)
  }

  /// Begins to go through the entries that a hash may be at.
  ///
  /// - Complexity: one cache line, two for about a fifth of the keys.
  @inline(__always)
  func probe(_ hash: UInt64) -> Probe {
    let (number, tag) = place(hash)
    return Probe(bucket: buckets[number], tag: tag)
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

  /// Makes the entry for one record name another place.
  ///
  /// - Returns: whether there was such an entry.
  func move(_ old: Address, to new: Address, _ hash: UInt64) -> Bool {
    var probe = probe(hash)
    while let slot = probe.next(self) {
      guard slot.pointee & Address.mask == old.rawValue else { continue }
      slot.pointee = slot.pointee & ~Address.mask | new.rawValue
      return true
    }
    return false
  }

  /// Fetches a hash's bucket ahead of use.
  @inline(__always)
  func prefetch(_ hash: UInt64) { Machine.prefetch(buckets[place(hash).bucket]) }
}
