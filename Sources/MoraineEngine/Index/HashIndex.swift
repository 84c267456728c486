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

  /// Fetches a hash's bucket ahead of use.
  @inline(__always)
  func prefetch(_ hash: UInt64) { Machine.prefetch(buckets[place(hash).bucket]) }
}

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
  mutating func next(_ index: borrowing HashIndex) -> UnsafeMutablePointer<UInt64>? {
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
      bucket = index.overflow[HashIndex.linkTarget(last)]
      position = 0
    }
  }
}

/// Buckets in chunks that never move, so that growth copies nothing.
struct BucketArray: ~Copyable {
  static let chunkShift = 15
  static let chunkBuckets = 1 << chunkShift

  private(set) var count = 0
  private var chunks: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>
  private var memory: [ZeroedMemory] = []
  private var capacity = 16

  init() {
    chunks = .allocate(capacity: capacity)
  }

  deinit {
    for chunk in memory { chunk.deallocate() }
    chunks.deallocate()
  }

  @inline(__always)
  subscript(_ number: Int) -> UnsafeMutablePointer<UInt64> {
    chunks[number &>> Self.chunkShift]
      + (number & (Self.chunkBuckets &- 1)) &* HashIndex.slotsPerBucket
  }

  mutating func grow(to newCount: Int) {
    while memory.count * Self.chunkBuckets < newCount {
      // The first chunk is all that a small store has: it grows by small pages.
      let chunk = ZeroedMemory(
        byteCount: Self.chunkBuckets * HashIndex.bucketBytes, isHuge: !memory.isEmpty)
      if memory.count == capacity { enlargeDirectory() }
      chunks[memory.count] = chunk.base.assumingMemoryBound(to: UInt64.self)
      memory.append(chunk)
    }
    count = newCount
  }

  private mutating func enlargeDirectory() {
    let larger = UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>.allocate(capacity: capacity * 2)
    larger.update(from: chunks, count: capacity)
    chunks.deallocate()
    chunks = larger
    capacity *= 2
  }
}
