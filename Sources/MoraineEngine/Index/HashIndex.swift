import MoraineStorage

/// The hashed index: from a key's hash to the addresses it may be at. Keys are not stored; the
/// caller confirms a candidate by the key in its record.
///
/// Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980):
/// one bucket splits at a time, so that no insertion pays for rehashing the world. The index
/// becomes smaller the same way: the last bucket is merged into the one that it was split from. A
/// bucket is one cache line of eight slots; a slot is a 16-bit tag over a 48-bit address, 0 when
/// free. A bucket that overflows has a link to a further one in its last slot.
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
/// records. Merging never touches a record: the bits that a new tag has lost are those of the
/// bucket's number.
struct HashIndex: ~Copyable, ProbedIndex {
  static let slotsPerBucket = 8
  static let bucketBytes = 64
  static let initialLevel = 10
  /// How many levels a tag's bits serve before the tags are renewed: 6 of 16 bits stay selective.
  static let levelsPerTag = 10
  static let linkSlot: UInt64 = 0xFFFFF

  let memory: IndexMemory
  var buckets: BucketArray
  var overflow: BucketArray
  var freeOverflow = FreeNumbers()
  /// 2^level buckets existed when this round of splits began.
  var level = Self.initialLevel
  /// The next bucket to split in this round.
  var split = 0
  var tagShift = Self.initialLevel
  var count = 0
  /// The entries of the bucket that is being split; kept so that a split allocates nothing.
  var staying: [UInt64] = []
  var rising: [UInt64] = []
  /// The checkpoint that the index was loaded from, until all of it is checked.
  var pages: CheckpointPages?
  /// While true, what an operation touches must be admitted before.
  var isLazy = false
  /// How many buckets ``admitNext(_:)`` has checked, from the first one on; then overflow buckets.
  var admittedCount = 0
  var admittedOverflowCount = 0
  /// While true, a snapshot may have what is about to change.
  var isFrozen = false
  /// Whether an operation has more to do than itself: pages to be checked or to be brought home, or
  /// memory to be taken ahead.
  var needsCare = false
  /// How many entries a compaction is about to move, which nothing may keep it from.
  var movesUnderWay = 0
  /// Whether the index grew by memory that had been taken ahead, and the system has given none
  /// since.
  var isShort = false
  /// How many snapshots had ended when ``tend(pages:)`` began its last round that came to its end,
  /// and the one that it is in.
  var tendedThrough: UInt64 = 0
  var roundBegan: UInt64?
  /// Whether that round has come to the overflow buckets.
  var hasTendedBuckets = false

  /// - Throws: `.limitExceeded` when the system gives no memory.
  init(_ memory: IndexMemory = IndexMemory()) throws(StoreError) {
    self.init(empty: memory)
    try secure(insertions: 1)
    buckets.grow(to: 1 << Self.initialLevel)
  }

  /// Without buckets.
  init(empty memory: IndexMemory) {
    self.memory = memory
    buckets = BucketArray(memory)
    overflow = BucketArray(memory)
  }

  /// How many pages one change may copy: those of two chains, and of a new bucket. A chain of more
  /// than a dozen buckets needs keys that were chosen for their hashes.
  private static let pagesPerChange = 32

  /// Makes sure that the next changes find memory: one that has begun cannot fail.
  ///
  /// - Parameter insertions: how many keys are inserted, moved or removed.
  /// - Throws: `.limitExceeded` when the system gives no memory, or no more mappings.
  mutating func secure(insertions: Int) throws(StoreError) {
    // At most one bucket and two overflow buckets for each.
    let chunks = IndexMemory.chunksPerInsertion + 3 * insertions / BucketArray.chunkBuckets
    // New buckets lie side by side.
    let newPages = 3 + 3 * insertions / BucketArray.pageBuckets
    let pages = isFrozen ? pageBound(changes: insertions) + newPages + reservedPages : 0
    do throws(StorageError) { try memory.secure(chunks: chunks, pages: pages) } catch {
      throw StoreError(error)
    }
    isShort = false
  }

  /// Makes sure that so many entries can be moved, and keeps other changes from using the memory
  /// for that until ``movesUnderWay`` is 0 again.
  ///
  /// - Throws: as ``secure(insertions:)``.
  mutating func beginMoves(_ count: Int) throws(StoreError) {
    if isFrozen { try secureCopies(moves: count) }
    movesUnderWay = count
  }

  /// Makes sure that the moves under way find memory for copies after a snapshot was taken: each
  /// page may have to be copied once more.
  ///
  /// - Throws: as ``secure(insertions:)``; then no snapshot may be taken.
  func prepareToFreeze() throws(StoreError) {
    if movesUnderWay > 0 { try secureCopies(moves: movesUnderWay) }
  }

  private func secureCopies(moves: Int) throws(StoreError) {
    do throws(StorageError) {
      try memory.secure(chunks: 0, pages: pageBound(changes: moves))
    } catch {
      throw StoreError(error)
    }
  }

  /// How many free pages are kept for the moves under way.
  var reservedPages: Int { isFrozen ? pageBound(changes: movesUnderWay) : 0 }

  /// How many pages so many changes may copy at most: each page once for all snapshots.
  private func pageBound(changes: Int) -> Int {
    min(changes * Self.pagesPerChange, buckets.usedPageCount + overflow.usedPageCount)
  }

  /// Memory in use, in bytes.
  var byteCount: Int { (buckets.count + overflow.count - freeOverflow.count) * Self.bucketBytes }

  @inline(__always)
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64> { buckets[number] }

  @inline(__always)
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64> { overflow[number] }

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

  /// Makes the entry for one record name another place.
  ///
  /// - Returns: whether there was such an entry.
  mutating func move(_ old: Address, to new: Address, _ hash: UInt64) -> Bool {
    thaw(hash)
    var probe = probe(hash)
    while let slot = probe.next(self) {
      guard slot.pointee & Address.mask == old.rawValue else { continue }
      slot.pointee = slot.pointee & ~Address.mask | new.rawValue
      return true
    }
    return false
  }
}
