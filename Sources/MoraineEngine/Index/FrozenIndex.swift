import MoraineFormat

/// An index as it was at one moment. Any thread that has it may read it.
struct FrozenIndex: ~Copyable, ProbedIndex {
  let level: Int
  let split: Int
  let tagShift: Int
  let count: Int
  private let buckets: FrozenBuckets
  private let overflow: FrozenBuckets
  private let memory: IndexMemory
  private let number: UInt64

  fileprivate init(_ index: inout HashIndex) {
    memory = index.memory
    assert(index.fitsItsLevel, "the number of buckets does not fit the level")
    number = memory.takeSnapshot()
    (level, split, tagShift, count) = (index.level, index.split, index.tagShift, index.count)
    buckets = index.buckets.freeze()
    overflow = index.overflow.freeze()
    index.isFrozen = true
    index.needsCare = true
  }

  deinit { memory.release(number) }

  @inline(__always)
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64> { buckets[number] }

  @inline(__always)
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64> { overflow[number] }
}

// The pages of an index as a checkpoint contains them.
extension FrozenIndex {
  /// Alignment of a buffer for ``copy(page:of:to:)``, in bytes.
  static let pageAlignment = HashIndex.bucketBytes

  /// Copies a page of the checkpoint. The pages of the overflow buckets follow those of the
  /// buckets. Zeros follow the last bucket.
  ///
  /// - Parameter header: the header that ``HashIndex/describe(in:)`` has filled.
  func copy(
    page: Int, of header: CheckpointHeader, to target: UnsafeMutableRawBufferPointer
  ) {
    assert(target.count == CheckpointHeader.pageBytes, "a page does not fit its buffer")
    assert(
      page >= 0 && page < header.bucketPageCount + header.overflowPageCount,
      "a checkpoint has no such page")
    assert(
      header.bucketCount == UInt64(1 << level + split), "the header describes another index")
    target.initializeMemory(as: UInt8.self, repeating: 0)
    guard let base = target.baseAddress else { return }
    let isOverflow = page >= header.bucketPageCount
    let perPage = CheckpointHeader.pageBytes / HashIndex.bucketBytes
    let first = (isOverflow ? page - header.bucketPageCount : page) * perPage
    let end = min(
      first + perPage, Int(clamping: isOverflow ? header.overflowCount : header.bucketCount))
    for number in stride(from: first, to: end, by: BucketArray.pageBuckets) {
      let buckets = isOverflow ? overflowBucket(number) : bucket(number)
      (base + (number - first) * HashIndex.bucketBytes).copyMemory(
        from: buckets,
        byteCount: min(BucketArray.pageBuckets, end - number) * HashIndex.bucketBytes)
    }
  }
}

extension HashIndex {
  /// Writes the layout of the index, as it is now, into the header of a checkpoint.
  func describe(in header: inout CheckpointHeader) {
    header.level = UInt8(level)
    header.tagShift = UInt8(tagShift)
    header.split = UInt64(split)
    // The count is below zero when the index began with a forged count.
    header.keyCount = UInt64(clamping: count)
    header.bucketCount = UInt64(buckets.count)
    header.overflowCount = UInt64(overflow.count)
  }

  /// Returns the index as it is now. All its pages were validated before.
  ///
  /// - Complexity: O(index), a byte for about 500 bytes of the index; later, each page is copied at
  ///   its first change.
  mutating func freeze() -> FrozenIndex {
    precondition(!hasUnvalidatedPages, "an index with unvalidated pages must not be frozen")
    return FrozenIndex(&self)
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

  /// How many pages one operation copies back home: each copy is 4 KiB.
  static let homePages = 2

  /// Copies a few pages back to home pages that no snapshot has any more. Pointers to entries are
  /// no longer valid.
  ///
  /// - Returns: whether more pages can be looked at now.
  @discardableResult
  mutating func tend(pages limit: Int = HashIndex.homePages) -> Bool {
    if isFrozen, !memory.isFrozen { isFrozen = false }
    let released = memory.releaseCount
    assert(tendedThrough <= released, "a round saw snapshots end that have not ended")
    assert(roundBegan != nil || !hasTendedBuckets, "a round has a middle and no beginning")
    var left = limit
    if buckets.isAway || overflow.isAway, released != tendedThrough {
      // A release that happens during a round is seen in the next round.
      if roundBegan == nil { roundBegan = released }
      if !hasTendedBuckets { hasTendedBuckets = buckets.bringHome(&left) }
      if hasTendedBuckets, overflow.bringHome(&left) {
        tendedThrough = roundBegan ?? released
        roundBegan = nil
        hasTendedBuckets = false
      }
    }
    let isAway = buckets.isAway || overflow.isAway
    needsCare = hasUnvalidatedPages || isFrozen || isAway || isShort
    return isAway && released != tendedThrough
  }
}
