import MoraineFormat
import MoraineStorage

/// Hash index: it maps the hash of a key to the addresses at which the key's record may be. The
/// index does not store keys; the caller confirms a candidate by the key in its record.
///
/// Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980):
/// one bucket splits at a time, so that no insertion pays for rehashing the whole table. The index
/// becomes smaller in the same way: the last bucket is merged into the one that it was split from.
/// A bucket is one cache line of eight slots. A slot is a 16-bit tag above a 48-bit address, and 0
/// when it is free. A bucket that overflows holds a link to a further bucket in its last slot.
///
/// ```
///   63        48 47                                   0
///  +------------+--------------------------------------+
///  |    tag     |  segment slot (20) | offset / 4 (28) |   segment slot 0xFFFFF: a link
///  +------------+--------------------------------------+
/// ```
///
/// The tag holds the bits of the hash from `tagShift` on. A split needs the hash bit just above
/// those of the bucket's number. The tag has that bit, so growth never reads a record until the
/// table has grown 2^10-fold. Then the entries of each splitting bucket get new tags, from the keys
/// in their records. Merging never reads a record: the bits that a new tag lacks are those of the
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
  /// The entries of the bucket that is being split. The arrays are kept so that a split allocates
  /// nothing.
  var staying: [UInt64] = []
  var rising: [UInt64] = []
  /// The checkpoint that the index was loaded from, until all its pages are validated.
  var pages: CheckpointPages?
  /// Whether an operation must first validate the pages that it touches.
  var hasUnvalidatedPages = false
  /// Number of buckets that ``validateNextPages(_:)`` has validated, from the first one on; then
  /// the number of overflow buckets.
  var admittedCount = 0
  var admittedOverflowCount = 0
  /// Whether a snapshot may have a page that is about to change.
  var isFrozen = false
  /// Whether operations have additional work: pages to validate or to copy back, or memory to take
  /// ahead.
  var needsCare = false
  /// Number of entries that a compaction is about to move; these moves must not fail.
  var movesUnderWay = 0
  /// Whether the index grew by memory that had been taken ahead, and that was not replaced since.
  var isShort = false
  /// Number of snapshots that had ended when ``tend(pages:)`` began its last complete round, and
  /// when it began the round under way.
  var tendedThrough: UInt64 = 0
  var roundBegan: UInt64?
  /// Whether the round under way has reached the overflow buckets.
  var hasTendedBuckets = false

  /// - Throws: `.limitExceeded` when the system gives no memory.
  init(_ memory: IndexMemory = IndexMemory()) throws(StoreError) {
    self.init(empty: memory)
    try secure(insertions: 1)
    buckets.grow(to: 1 << Self.initialLevel)
  }

  /// Creates an index without buckets.
  init(empty memory: IndexMemory) {
    self.memory = memory
    buckets = BucketArray(memory)
    overflow = BucketArray(memory)
  }

  /// The most pages that one change may copy: those of two chains, and of a new bucket. A chain of
  /// more than a dozen buckets needs keys that were chosen for their hashes.
  private static let pagesPerChange = 32

  /// Takes ahead the memory that the next changes may need: a change that has begun cannot fail.
  ///
  /// - Parameter insertions: how many keys are inserted, moved or removed.
  /// - Throws: `.limitExceeded` when the system gives no memory, or no more mappings.
  mutating func secure(insertions: Int) throws(StoreError) {
    // At most one bucket and two overflow buckets for each key.
    let chunks = IndexMemory.chunksPerInsertion + 3 * insertions / BucketArray.chunkBuckets
    // New buckets lie side by side.
    let newPages = 3 + 3 * insertions / BucketArray.pageBuckets
    let pages = isFrozen ? pageBound(changes: insertions) + newPages + reservedPages : 0
    try storing { () throws(StorageError) in try memory.secure(chunks: chunks, pages: pages) }
    isShort = false
  }

  /// Number of insertions for which the memory is always taken ahead.
  static let securedInsertions = BucketArray.chunkBuckets / 3

  /// Takes ahead the memory that one change may need, where the index may lack it.
  ///
  /// - Throws: as ``secure(insertions:)``.
  mutating func secureChange() throws(StoreError) {
    if isFrozen || isShort { try secure(insertions: 1) }
  }

  /// Takes ahead the memory for moving this number of entries. Other changes do not use that memory
  /// until ``movesUnderWay`` is 0 again.
  ///
  /// - Throws: as ``secure(insertions:)``.
  mutating func beginMoves(_ count: Int) throws(StoreError) {
    assert(movesUnderWay == 0, "two compactions move entries at the same time")
    if isFrozen { try secureCopies(pageBound(changes: count)) }
    movesUnderWay = count
  }

  /// Takes ahead the memory for removing this number of entries, besides that for the moves under
  /// way.
  ///
  /// - Throws: as ``secure(insertions:)``.
  func secureRemovals(_ count: Int) throws(StoreError) {
    if isFrozen { try secureCopies(pageBound(changes: count) + reservedPages) }
  }

  /// Takes ahead the memory for copies that the moves under way need after a snapshot was taken:
  /// each page may have to be copied once more.
  ///
  /// - Throws: as ``secure(insertions:)``; then the snapshot must be released.
  func secureMoves() throws(StoreError) {
    if movesUnderWay > 0 { try secureCopies(pageBound(changes: movesUnderWay)) }
  }

  private func secureCopies(_ pages: Int) throws(StoreError) {
    try storing { () throws(StorageError) in try memory.secure(chunks: 0, pages: pages) }
  }

  /// Number of free pages that are kept for the moves under way.
  var reservedPages: Int { isFrozen ? pageBound(changes: movesUnderWay) : 0 }

  /// The most pages that this number of changes may copy: each page once for all snapshots.
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

  /// Whether the number of buckets is the one that the splits so far have made. For assertions.
  var fitsItsLevel: Bool { split < 1 << level && buckets.count == 1 << level + split }

  /// Whether the tags have the hash bit by which this round splits buckets. For assertions.
  var tagsFitTheLevel: Bool { (0...Self.levelsPerTag).contains(level - tagShift) }

  static func link(to bucket: Int) -> UInt64 {
    assert(bucket >= 0 && bucket < 1 << Address.offsetBits, "no link can name this bucket")
    return linkSlot << Address.offsetBits | UInt64(bucket)
  }
}

/// A hash index, live or of a snapshot: what a look-up needs of its layout. Used in this folder
/// only.
protocol ProbedIndex: ~Copyable, KeyIndex where Candidates == Probe {
  var level: Int { get }
  var split: Int { get }
  var tagShift: Int { get }
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
}

extension ProbedIndex where Self: ~Copyable {
  /// Whether this round renews the tags of the buckets that it splits.
  @inline(__always)
  var renewsTags: Bool { level &- tagShift == HashIndex.levelsPerTag }

  /// Returns the bucket that a hash belongs to, and the tag that it has there.
  @inline(__always)
  func place(_ hash: UInt64) -> (bucket: Int, tag: UInt64) {
    let low = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level)) &- 1))
    guard low < split else { return (low, (hash &>> UInt64(tagShift)) & 0xFFFF) }
    let bucket = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level &+ 1)) &- 1))
    let shift = renewsTags ? tagShift &+ HashIndex.levelsPerTag : tagShift
    return (bucket, (hash &>> UInt64(shift)) & 0xFFFF)
  }

  /// - Complexity: one cache line, two for about a fifth of the keys.
  @inline(__always)
  func candidates(_ hash: UInt64) -> Probe {
    let (number, tag) = place(hash)
    return Probe(bucket: bucket(number), tag: tag)
  }

  @inline(__always)
  func next(_ candidates: inout Probe) -> IndexEntry? { candidates.next(self) }

  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool {
    var probe = candidates(hash)
    while let entry = probe.next(self) {
      if entry.address == address { return true }
    }
    return false
  }

  @inline(__always)
  func prefetch(_ hash: UInt64) { CPU.prefetch(bucket(place(hash).bucket)) }

  /// Prefetches the bucket after a hash's bucket, which look-ups of dead records read too.
  @inline(__always) func prefetchOverflow(_ hash: UInt64) {
    let last = bucket(place(hash).bucket)[HashIndex.slotsPerBucket &- 1]
    if HashIndex.isLink(last) { CPU.prefetch(overflowBucket(HashIndex.linkTarget(last))) }
  }
}

/// An entry of an index. It is valid until the index changes.
struct IndexEntry {
  fileprivate let slot: UnsafeMutablePointer<UInt64>

  /// Address of the record that the entry names.
  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }
}

extension HashIndex {
  /// Lets an entry name another record of its key. The caller has called ``makeUnique(_:)``.
  @inline(__always)
  mutating func replace(_ entry: IndexEntry, with address: Address) {
    assert(entry.slot.pointee != 0, "an entry is changed that was removed")
    assert(!Self.isLink(address.rawValue), "a changed entry looks like a link")
    entry.slot.pointee = entry.slot.pointee & ~Address.mask | address.rawValue
  }

  /// Removes an entry. The caller has called ``makeUnique(_:)``.
  @inline(__always)
  mutating func remove(_ entry: IndexEntry) {
    assert(entry.slot.pointee != 0, "an entry is removed twice")
    entry.slot.pointee = 0
    removeFromCount()
  }

  /// Removes the entry of one record.
  mutating func remove(_ address: Address, _ hash: UInt64) {
    makeUnique(hash)
    var probe = candidates(hash)
    while let entry = probe.next(self) {
      if entry.address == address { return remove(entry) }
    }
    assertionFailure("an entry is removed that does not exist")
  }

  /// Changes the entry of one record to name another address.
  ///
  /// - Returns: whether the entry existed.
  mutating func move(_ old: Address, to new: Address, _ hash: UInt64) -> Bool {
    makeUnique(hash)
    var probe = candidates(hash)
    while let entry = probe.next(self) {
      guard entry.address == old else { continue }
      replace(entry, with: new)
      return true
    }
    return false
  }

  /// Gives the entries of a hash pages that no snapshot has, so that they can be changed. Pointers
  /// to entries are no longer valid.
  @inline(__always)
  mutating func makeUnique(_ hash: UInt64) {
    if isFrozen { makeUnique(bucket: place(hash).bucket) }
  }

  /// Gives a bucket and its chain pages that no snapshot has. Pointers to entries are no longer
  /// valid.
  mutating func makeUnique(bucket number: Int) {
    guard isFrozen else { return }
    guard memory.isFrozen else {
      isFrozen = false
      return
    }
    buckets.makeUnique(number)
    var last = buckets[number][Self.slotsPerBucket - 1]
    while Self.isLink(last) {
      let next = Self.linkTarget(last)
      overflow.makeUnique(next)
      last = overflow[next][Self.slotsPerBucket - 1]
    }
  }
}

/// Iterator over the entries that may belong to a hash.
struct Probe {
  private var bucket: UnsafeMutablePointer<UInt64>
  /// A byte for each slot of the bucket, with a bit set if the slot has the tag and was not looked
  /// at yet.
  private var candidates: UInt64
  private let tag: UInt16

  @inline(__always)
  init(bucket: UnsafeMutablePointer<UInt64>, tag: UInt64) {
    self.bucket = bucket
    self.tag = UInt16(truncatingIfNeeded: tag)
    candidates = CPU.slots(in: bucket, tagged: self.tag)
  }

  /// Returns the next entry with the tag; nil when there are no more.
  @inline(__always)
  fileprivate mutating func next<Index: ProbedIndex & ~Copyable>(
    _ index: borrowing Index
  ) -> IndexEntry? {
    while true {
      while candidates != 0 {
        let position = candidates.trailingZeroBitCount &>> 3
        candidates &= candidates &- 1
        let slot = bucket[position]
        // Free slots and links look like entries with the tag 0.
        if slot != 0, !HashIndex.isLink(slot) { return IndexEntry(slot: bucket + position) }
      }
      let last = bucket[HashIndex.slotsPerBucket &- 1]
      guard HashIndex.isLink(last) else { return nil }
      bucket = index.overflowBucket(HashIndex.linkTarget(last))
      candidates = CPU.slots(in: bucket, tagged: tag)
    }
  }
}

/// A source of hashes: it reads the record at an address and returns the hash of the record's key.
protocol RehashSource: ~Copyable {
  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64
}

extension HashIndex {
  /// Whether a bucket must split. Splitting begins when slots are 11/16 full, overflow buckets
  /// counted: 11.6 bytes a key at every size, and 1.2 buckets visited for a key that exists
  /// (simulated and measured).
  private var isCrowded: Bool {
    let bucketCount = buckets.count &+ overflow.count &- freeOverflow.count
    return count &* 16 > bucketCount &* Self.slotsPerBucket &* 11
  }

  /// Adds an entry. The caller knows that the key has none.
  ///
  /// - Parameter source: returns the hash of an older entry's key, for renewing its tag.
  mutating func insert<Source: RehashSource & ~Copyable>(
    _ hash: UInt64, _ address: Address, rehashing source: borrowing Source
  ) {
    assert(address.rawValue != 0, "a record begins where its segment begins")
    assert(!Self.isLink(address.rawValue), "an entry looks like a link")
    let (number, tag) = place(hash)
    makeUnique(bucket: number)
    add(tag << 48 | address.rawValue, to: buckets[number])
    count &+= 1
    // A split that cannot read a key leaves everything as it was, and is tried again later.
    guard isCrowded, !hasUnvalidatedPages || validateSplitBucket() else { return }
    do throws(StoreError) { try splitNext(source) } catch {}
  }

  @inline(__always)
  private mutating func removeFromCount() { count &-= 1 }

  private mutating func add(_ entry: UInt64, to first: UnsafeMutablePointer<UInt64>) {
    var bucket = first
    while true {
      for position in 0..<Self.slotsPerBucket where bucket[position] == 0 {
        bucket[position] = entry
        return
      }
      let last = bucket[Self.slotsPerBucket &- 1]
      if Self.isLink(last) {
        bucket = overflow[Self.linkTarget(last)]
        continue
      }
      let number = takeOverflowBucket()
      let next = overflow[number]
      assert((0..<Self.slotsPerBucket).allSatisfy { next[$0] == 0 }, "a free bucket has entries")
      next[0] = last
      next[1] = entry
      bucket[Self.slotsPerBucket &- 1] = Self.link(to: number)
      return
    }
  }

  @inline(__always)
  private mutating func noteGrowth(usedSpare: Bool) {
    if usedSpare { (isShort, needsCare) = (true, true) }
  }

  private mutating func takeOverflowBucket() -> Int {
    let number: Int
    if let free = freeOverflow.removeLowest() {
      number = free
    } else {
      number = overflow.count
      precondition(number < 1 << Address.offsetBits, "index overflow area is exhausted")
      noteGrowth(usedSpare: overflow.grow(to: number + 1))
    }
    if isFrozen { overflow.makeUnique(number) }
    return number
  }

  /// Splits one bucket: the next hash bit of each entry decides its bucket.
  private mutating func splitNext<Source: RehashSource & ~Copyable>(
    _ hashes: borrowing Source
  ) throws(StoreError) {
    assert(fitsItsLevel, "the number of buckets does not fit the level")
    let source = split
    try sortEntries(of: source, hashes)
    let target = buckets.count
    noteGrowth(usedSpare: buckets.grow(to: target + 1))
    makeUnique(bucket: source)
    if isFrozen { buckets.makeUnique(target) }
    let added = buckets[target]
    assert((0..<Self.slotsPerBucket).allSatisfy { added[$0] == 0 }, "a new bucket has entries")
    empty(source)
    for entry in staying { add(entry, to: buckets[source]) }
    for entry in rising { add(entry, to: buckets[target]) }
    split += 1
    guard split == 1 << level else { return }
    if renewsTags { tagShift += Self.levelsPerTag }
    level += 1
    split = 0
  }

  /// Copies a bucket's entries, with their future tags, into `staying` and `rising`.
  private mutating func sortEntries<Source: RehashSource & ~Copyable>(
    of bucket: Int, _ hashes: borrowing Source
  ) throws(StoreError) {
    staying.removeAll(keepingCapacity: true)
    rising.removeAll(keepingCapacity: true)
    assert(tagsFitTheLevel, "the tags do not have the bit of this split")
    let renews = renewsTags
    let tagBit = UInt64(48 + level - tagShift)
    var current = buckets[bucket]
    while true {
      for position in 0..<Self.slotsPerBucket {
        var slot = current[position]
        if slot == 0 || Self.isLink(slot) { continue }
        var goesUp = (slot &>> tagBit) & 1 == 1
        if renews {
          let hash = try hashes.hashOfRecord(at: Address(rawValue: slot & Address.mask))
          let tag = (hash >> UInt64(tagShift + Self.levelsPerTag)) & 0xFFFF
          slot = tag << 48 | slot & Address.mask
          goesUp = (hash >> UInt64(level)) & 1 == 1
        }
        if goesUp { rising.append(slot) } else { staying.append(slot) }
      }
      let last = current[Self.slotsPerBucket - 1]
      guard Self.isLink(last) else { return }
      current = overflow[Self.linkTarget(last)]
    }
  }

  private mutating func empty(_ bucket: Int) {
    var current = buckets[bucket]
    while true {
      let last = current[Self.slotsPerBucket - 1]
      for position in 0..<Self.slotsPerBucket { current[position] = 0 }
      guard Self.isLink(last) else { return }
      let number = Self.linkTarget(last)
      if pages?.retireOverflow(number) != true { freeOverflow.insert(number) }
      current = overflow[number]
    }
  }
}

// Shrinking undoes splits, the last one first. It does not affect readers without the actor. These
// are snapshots, and their pages are copied before a merge writes to them, as before any other
// change. The memory of chunks that the table no longer has is kept as long as a snapshot may have
// it: see ``IndexMemory``.
extension HashIndex {
  /// How many buckets ``shrinkByAStep()`` visits. A step takes less than a millisecond, even
  /// when each visit copies a page that a snapshot has.
  static let shrinkStep = 2048

  /// Whether less than a sixteenth of the slots is in use; seven where work may be long.
  func isSparse(thoroughly: Bool) -> Bool {
    buckets.count > 1 << (Self.initialLevel + 1)
      && count < buckets.count * Self.slotsPerBucket / 16 * (thoroughly ? 7 : 1)
  }

  /// Whether merging continues: while less than half of the slots are in use. Splits begin at
  /// 11/16, so an index that was made smaller does not grow at once. If there are more overflow
  /// buckets than buckets, the hashes are not spread, or a forged checkpoint gave a wrong `count`.
  private var canMerge: Bool {
    buckets.count > 1 << Self.initialLevel && count < buckets.count * Self.slotsPerBucket / 2
      && overflow.count - freeOverflow.count <= buckets.count
  }

  /// Does one step of making the index smaller.
  ///
  /// - Returns: whether there is more to do.
  /// - Throws: `.limitExceeded` when there is no memory for copies of pages that a snapshot has.
  mutating func shrinkByAStep() throws(StoreError) -> Bool {
    if isFrozen || isShort { try secure(insertions: Self.shrinkStep) }
    var limit = Self.shrinkStep
    return shrink(&limit)
  }

  /// Makes the index smaller, a part at a time. All pages were validated before. Pointers to
  /// entries are no longer valid.
  ///
  /// Between two steps the index is complete: it can be read, changed, frozen and written to a
  /// checkpoint.
  ///
  /// - Parameter limit: how many buckets are visited; reduced by the number that were. The chain of
  ///   one bucket more may be visited.
  /// - Returns: whether there is more to do.
  /// - Complexity: O(limit). No record is read: a merged bucket's number and its tags have all the
  ///   hash bits that the tags of the bucket they are merged into need.
  mutating func shrink(_ limit: inout Int) -> Bool {
    precondition(!hasUnvalidatedPages, "an index with unvalidated pages must not shrink")
    while limit > 0, canMerge { mergeLast(&limit) }
    // Merging makes each chain again, of the lowest numbers, so the last numbers become free.
    while limit > 0, overflow.count > 0, freeOverflow.contains(overflow.count - 1) {
      freeOverflow.remove(overflow.count - 1)
      overflow.shrink(to: overflow.count - 1)
      limit -= 1
    }
    assert(fitsItsLevel, "the number of buckets does not fit the level")
    buckets.returnEmptyChunks()
    overflow.returnEmptyChunks()
    guard limit > 0 else { return true }
    buckets.settle()
    overflow.settle()
    return false
  }

  /// Moves the entries of the last bucket into the one that it was split from.
  private mutating func mergeLast(_ limit: inout Int) {
    if split == 0 {
      assert(level > Self.initialLevel, "an index becomes smaller than a new one")
      // Return to the round of splits before this one.
      level -= 1
      split = 1 << level
      // If that round renewed the tags, they begin now at the bit by which the round split.
      if tagShift == level, level > Self.initialLevel { tagShift -= Self.levelsPerTag }
    }
    split -= 1
    let (target, source) = (split, buckets.count - 1)
    assert(source == target + 1 << level, "the last bucket is not the one that was split last")
    assert(tagsFitTheLevel, "the tags do not have the bit of the split that is undone")
    makeUnique(bucket: target)
    makeUnique(bucket: source)
    staying.removeAll(keepingCapacity: true)
    for bucket in [target, source] {
      limit -= collectMerged(bucket, into: target)
      empty(bucket)
    }
    let removed = buckets[source]
    assert((0..<Self.slotsPerBucket).allSatisfy { removed[$0] == 0 }, "a merged bucket has entries")
    buckets.shrink(to: source)
    for entry in staying { add(entry, to: buckets[target]) }
  }

  /// Appends a bucket's entries, with their future tags, to `staying`.
  ///
  /// - Returns: the number of buckets in its chain.
  private mutating func collectMerged(_ bucket: Int, into target: Int) -> Int {
    let isRenewed = renewsTags
    // The hash bits from the new tag's first bit up to the old tag's are those of the bucket's
    // number.
    let known = UInt64(target >> tagShift) & ((1 << UInt64(Self.levelsPerTag)) - 1)
    var current = buckets[bucket]
    var visited = 1
    while true {
      for position in 0..<Self.slotsPerBucket {
        let slot = current[position]
        if slot == 0 || Self.isLink(slot) { continue }
        let tag = ((slot >> 48) << UInt64(Self.levelsPerTag)) & 0xFFFF | known
        staying.append(isRenewed ? tag << 48 | slot & Address.mask : slot)
      }
      let last = current[Self.slotsPerBucket - 1]
      guard Self.isLink(last) else { return visited }
      current = overflow[Self.linkTarget(last)]
      visited += 1
    }
  }
}
