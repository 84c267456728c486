/// Knows the hash of the key of the record at an address.
protocol RehashSource: ~Copyable {
  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64
}

extension HashIndex {
  /// Splitting begins when slots are 11/16 full, overflow buckets counted: 11.6 bytes a key at
  /// every size, and 1.2 buckets visited for a key that is there (simulated and measured).
  private var isCrowded: Bool {
    let bucketCount = buckets.count &+ overflow.count &- freeOverflow.count
    return count &* 16 > bucketCount &* Self.slotsPerBucket &* 11
  }

  /// Adds an entry; the caller knows that its key has none.
  ///
  /// - Parameter source: knows the hash of an older entry's key, for renewing its tag.
  mutating func insert<Source: RehashSource & ~Copyable>(
    _ hash: UInt64, _ address: Address, rehashing source: borrowing Source
  ) {
    let (number, tag) = place(hash)
    thaw(bucket: number)
    add(tag << 48 | address.rawValue, to: buckets[number])
    count &+= 1
    // A split that cannot read a key leaves everything as it was, and is tried again later.
    guard isCrowded, !isLazy || admitSplit() else { return }
    do throws(StoreError) { try splitNext(source) } catch {}
  }

  /// Takes out the entry that ``find(_:where:)`` found.
  mutating func remove(_ slot: UnsafeMutablePointer<UInt64>) {
    slot.pointee = 0
    count &-= 1
  }

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
    if isFrozen { overflow.thaw(number) }
    return number
  }

  /// Splits one bucket: its entries go by their next hash bit.
  private mutating func splitNext<Source: RehashSource & ~Copyable>(
    _ hashes: borrowing Source
  ) throws(StoreError) {
    let source = split
    try sortEntries(of: source, hashes)
    let target = buckets.count
    noteGrowth(usedSpare: buckets.grow(to: target + 1))
    thaw(bucket: source)
    if isFrozen { buckets.thaw(target) }
    empty(source)
    for entry in staying { add(entry, to: buckets[source]) }
    for entry in rising { add(entry, to: buckets[target]) }
    split += 1
    guard split == 1 << level else { return }
    if renewsTags { tagShift += Self.levelsPerTag }
    level += 1
    split = 0
  }

  /// Copies a bucket's entries, with the tags they will have, into `staying` and `rising`.
  private mutating func sortEntries<Source: RehashSource & ~Copyable>(
    of bucket: Int, _ hashes: borrowing Source
  ) throws(StoreError) {
    staying.removeAll(keepingCapacity: true)
    rising.removeAll(keepingCapacity: true)
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

// Becoming smaller: splits are undone, the last one first. Readers without the actor are not
// touched by it. They are snapshots, and their pages are copied before a merge writes to them, as
// before any other change; the memory of chunks that the table no longer has stays as long as a
// snapshot may have it: see ``IndexMemory``.
extension HashIndex {
  /// How many buckets one step of ``shrink(_:)`` visits: it takes less than a millisecond, also
  /// when each visit copies a page that a snapshot has.
  static let shrinkStep = 2048

  /// Whether the index has so many more slots than keys that making it smaller is worth it.
  var isSparse: Bool {
    buckets.count > 1 << (Self.initialLevel + 1)
      && count < buckets.count * Self.slotsPerBucket / 16
  }

  /// Whether merging goes on: while less than half of the slots are in use. Splits begin at 11/16,
  /// so an index that was made smaller does not grow at once. With more overflow buckets than
  /// buckets the hashes are not spread, or `count` is a lie of a forged checkpoint.
  private var canMerge: Bool {
    buckets.count > 1 << Self.initialLevel && count < buckets.count * Self.slotsPerBucket / 2
      && overflow.count - freeOverflow.count <= buckets.count
  }

  /// Makes the index smaller, a part at a time. All of it was admitted before. Pointers to entries
  /// are no longer valid.
  ///
  /// Between two steps the index is whole: it can be read, changed, frozen and written to a
  /// checkpoint.
  ///
  /// - Parameter limit: how many buckets are visited; reduced by those that were. The chain of one
  ///   bucket more may be visited.
  /// - Returns: whether there is more to do.
  /// - Complexity: O(limit). No record is read: a merged bucket's number and its tags have all the
  ///   hash bits that the tags of the bucket they are merged into need.
  mutating func shrink(_ limit: inout Int) -> Bool {
    precondition(!isLazy, "an index that was not checked becomes smaller")
    while limit > 0, canMerge { mergeLast(&limit) }
    // Merging makes each chain again, of the lowest numbers; so the last ones become free.
    while limit > 0, overflow.count > 0, freeOverflow.contains(overflow.count - 1) {
      freeOverflow.remove(overflow.count - 1)
      overflow.shrink(to: overflow.count - 1)
      limit -= 1
    }
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
      // Back into the round of splits before this one.
      level -= 1
      split = 1 << level
      // That round renewed the tags, where they begin now at the bit that it split by.
      if tagShift == level, level > Self.initialLevel { tagShift -= Self.levelsPerTag }
    }
    split -= 1
    let (target, source) = (split, buckets.count - 1)
    assert(source == target + 1 << level, "the last bucket is not the one that was split last")
    thaw(bucket: target)
    thaw(bucket: source)
    staying.removeAll(keepingCapacity: true)
    for bucket in [target, source] {
      limit -= collectMerged(bucket, into: target)
      empty(bucket)
    }
    buckets.shrink(to: source)
    for entry in staying { add(entry, to: buckets[target]) }
  }

  /// Appends a bucket's entries, with the tags that they will have, to `staying`.
  ///
  /// - Returns: how many buckets its chain has.
  private mutating func collectMerged(_ bucket: Int, into target: Int) -> Int {
    let isRenewed = renewsTags
    // The hash bits from the new tag's first one to the old tag's are the bucket's own.
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
