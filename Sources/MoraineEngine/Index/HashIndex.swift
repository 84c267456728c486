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
  /// Whether operations have additional work: pages to validate or to copy back home, or memory to
  /// take ahead.
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
    if isFrozen { try secureCopies(moves: count) }
    movesUnderWay = count
  }

  /// Takes ahead the memory for copies that the moves under way need after a snapshot is taken:
  /// each page may have to be copied once more.
  ///
  /// - Throws: as ``secure(insertions:)``; then no snapshot may be taken.
  func prepareToFreeze() throws(StoreError) {
    if movesUnderWay > 0 { try secureCopies(moves: movesUnderWay) }
  }

  private func secureCopies(moves: Int) throws(StoreError) {
    try storing { () throws(StorageError) in
      try memory.secure(chunks: 0, pages: pageBound(changes: moves))
    }
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
  mutating func removeFromCount() { count &-= 1 }

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

  /// Whether the index has so many free slots that making it smaller is worth the work.
  var isSparse: Bool {
    buckets.count > 1 << (Self.initialLevel + 1)
      && count < buckets.count * Self.slotsPerBucket / 16
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

extension HashIndex {
  /// Creates the index from a checkpoint. ``validatePages(_:)`` checks its pages when they are
  /// needed.
  ///
  /// Whole chunks stay where they were mapped. The last chunk of each kind, in which the index will
  /// grow, is copied, and is therefore checked at once.
  ///
  /// - Returns: nil when one of these is damaged, or when the tags do not fit the level.
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
    hasUnvalidatedPages = true
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
    // checksums do not tell from a chain.
    var left = overflow.count
    var entries = Self.entryCount(buckets[number])
    var last = buckets[number][Self.slotsPerBucket - 1]
    while Self.isLink(last) {
      let next = Self.linkTarget(last)
      guard left > 0, next < overflow.count, pages.checkOverflow(next),
        pages.claimOverflow(next, for: number)
      else { return false }
      left -= 1
      entries += Self.entryCount(overflow[next])
      last = overflow[next][Self.slotsPerBucket - 1]
    }
    pages.recordValidatedChain(number, entries: entries)
    return true
  }

  /// Returns the number of entries in one bucket.
  private static func entryCount(_ bucket: UnsafeMutablePointer<UInt64>) -> Int {
    (0..<slotsPerBucket).count { bucket[$0] != 0 && !isLink(bucket[$0]) }
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
