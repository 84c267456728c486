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
      next[0] = last
      next[1] = entry
      bucket[Self.slotsPerBucket &- 1] = Self.link(to: number)
      return
    }
  }

  private mutating func takeOverflowBucket() -> Int {
    let number: Int
    if let free = freeOverflow.popLast() {
      number = free
    } else {
      number = overflow.count
      precondition(number < 1 << Address.offsetBits, "index overflow area is exhausted")
      overflow.grow(to: number + 1)
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
    buckets.grow(to: target + 1)
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
      if pages?.retireOverflow(number) != true { freeOverflow.append(number) }
      current = overflow[number]
    }
  }
}
