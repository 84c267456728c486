import MoraineFormat
import MoraineStorage

/// Buckets in pages. A table leads to the pages, so that growth copies nothing, and a copy can
/// replace a page that a snapshot has.
struct BucketArray: ~Copyable {
  static let pageShift = 6
  /// 4 KiB: the size of the copy that a snapshot costs at the first change of a page.
  static let pageBuckets = 1 << pageShift
  static let pageBytes = pageBuckets * HashIndex.bucketBytes
  /// The unit of growth: 2 MiB, the size of a huge page.
  static let chunkBuckets = 1 << 15
  static let chunkBytes = chunkBuckets * HashIndex.bucketBytes
  private static let chunkPages = chunkBuckets / pageBuckets
  /// The most buckets that ``settle()`` moves. Copying them takes less than a tenth of a
  /// millisecond.
  static let settlingBuckets = 1 << 12

  private(set) var count = 0
  private var pages: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>
  private var pageCount = 0
  private var capacity = chunkPages
  /// Number of the first pages that lie in a checkpoint's mapping: whole chunks.
  private var mappedPageCount = 0
  /// The most buckets that existed before ``shrink(to:)``, since the first chunk was made.
  private var touchedCount = 0
  /// The origin of the page of each place, since the first snapshot.
  private var origins: [Origin]?
  /// Places whose page is a copy. A few of them may have their original page again, or have
  /// left the table.
  private var away: [Int] = []
  /// The next element of `away` that ``copyBack(_:)`` looks at.
  private var nextAway = 0
  private let memory: IndexMemory

  /// The origin of the page of a place.
  private struct Origin {
    /// The original page: the one that was made for the place.
    let home: UnsafeMutablePointer<UInt64>
    /// Number of snapshots that had been taken when the place got its current page.
    var born: UInt64
    /// The last term in which the place had its original page. Not read before the first copy.
    var homeTerm = IndexMemory.Term(born: 0, retired: 0)
    /// Whether `away` contains the place.
    var isListed = false
  }

  init(_ memory: IndexMemory) {
    self.memory = memory
    pages = .allocate(capacity: capacity)
  }

  deinit { pages.deallocate() }

  @inline(__always)
  subscript(_ number: Int) -> UnsafeMutablePointer<UInt64> {
    assert(number >= 0 && number < count, "a bucket lies outside the array")
    return pages[number &>> Self.pageShift]
      + (number & (Self.pageBuckets &- 1)) &* HashIndex.slotsPerBucket
  }

  /// - Returns: whether the growth used spare memory, which must be replaced.
  @discardableResult
  mutating func grow(to newCount: Int) -> Bool {
    precondition(newCount >= count, "growth must not make an array shorter")
    var usedSpare = false
    while pageCount * Self.pageBuckets < newCount {
      // A small store has only the first chunk, and grows by small pages.
      let chunk = memory.chunk(isHuge: pageCount > 0)
      add(chunk.base, byteCount: Self.chunkBytes)
      usedSpare = usedSpare || chunk.isSpare
    }
    count = newCount
    return usedSpare
  }

  /// Number of pages that the buckets occupy.
  var usedPageCount: Int { (count + Self.pageBuckets - 1) / Self.pageBuckets }

  /// Returns the number of the bucket at which the last chunk that is not full begins.
  static func firstOfLastChunk(_ count: Int) -> Int { count / chunkBuckets * chunkBuckets }

  /// Adopts buckets in memory that another object keeps alive. Whole chunks stay where they are;
  /// the rest is copied.
  ///
  /// - Returns: as ``grow(to:)``.
  @discardableResult
  mutating func adopt(_ base: UnsafeMutableRawPointer, count newCount: Int) -> Bool {
    precondition(pageCount == 0, "the array has buckets already")
    assert(
      UInt(bitPattern: base) % UInt(HashIndex.bucketBytes) == 0,
      "the buckets of a checkpoint are not aligned")
    let rest = Self.firstOfLastChunk(newCount)
    add(base, byteCount: rest * HashIndex.bucketBytes)
    mappedPageCount = pageCount
    let usedSpare = grow(to: newCount)
    for number in stride(from: rest, to: newCount, by: Self.pageBuckets) {
      UnsafeMutableRawPointer(self[number]).copyMemory(
        from: base + number * HashIndex.bucketBytes,
        byteCount: min(Self.pageBuckets, newCount - number) * HashIndex.bucketBytes)
    }
    return usedSpare
  }

  private mutating func add(_ base: UnsafeMutableRawPointer, byteCount: Int) {
    assert(byteCount % Self.chunkBytes == 0, "the memory of buckets is not whole chunks")
    let added = byteCount / Self.pageBytes
    if pageCount + added > capacity { enlargeTable(atLeast: pageCount + added) }
    for page in 0..<added {
      pages[pageCount + page] =
        (base + page * Self.pageBytes).assumingMemoryBound(to: UInt64.self)
    }
    if origins != nil {
      for page in pageCount..<pageCount + added {
        origins?.append(Origin(home: pages[page], born: memory.snapshotCount))
      }
    }
    pageCount += added
  }

  private mutating func enlargeTable(atLeast least: Int) {
    let newCapacity = max(capacity * 2, least)
    let larger = UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>.allocate(capacity: newCapacity)
    larger.update(from: pages, count: pageCount)
    pages.deallocate()
    pages = larger
    capacity = newCapacity
  }
}

extension BucketArray {
  /// Returns the buckets as they are now, for a snapshot that was just counted. From now on each
  /// change calls ``makeUnique(_:)`` first.
  ///
  /// - Complexity: O(pages): eight bytes for 64 buckets.
  mutating func freeze() -> FrozenBuckets {
    if origins == nil { origins = (0..<pageCount).map { Origin(home: pages[$0], born: 0) } }
    assert((origins?.count ?? pageCount) == pageCount, "a page has no origin")
    assert(usedPageCount <= pageCount, "buckets lie outside the pages of their array")
    return FrozenBuckets(copying: pages, pageCount: usedPageCount)
  }

  /// Gives a bucket a page that no snapshot has. Pointers into its old page are no longer valid.
  mutating func makeUnique(_ number: Int) {
    assert(number >= 0 && number < count, "a bucket outside the array is about to change")
    let page = number >> Self.pageShift
    guard var origin = origins?[page],
      let new = memory.replacement(
        for: pages[page], born: origin.born, home: origin.home, origin.homeTerm)
    else { return }
    let count = memory.snapshotCount
    assert(pages[page] == origin.home || origin.isListed, "the place of a copy is not listed")
    if pages[page] == origin.home {
      origin.homeTerm = IndexMemory.Term(born: origin.born, retired: count)
      if !origin.isListed { away.append(page) }
      origin.isListed = true
    }
    pages[page] = new
    origin.born = count
    origins?[page] = origin
  }

  /// Whether any page may be a copy.
  var isAway: Bool { !away.isEmpty }

  /// Copies pages back to the original pages of their places, where no snapshot has the original
  /// page any more. Pointers into buckets are no longer valid.
  ///
  /// - Parameter limit: how many places are looked at; reduced by the number that were.
  /// - Returns: whether all places were looked at since this function last returned true.
  mutating func copyBack(_ limit: inout Int) -> Bool {
    assert(nextAway <= away.count, "the next place to look at is beyond the last one")
    while limit > 0, nextAway < away.count {
      limit -= 1
      let page = away[nextAway]
      // The page may have left the table with its chunk; another chunk may have taken its place.
      guard page < pageCount, var origin = origins?[page] else {
        away.swapAt(nextAway, away.count - 1)
        away.removeLast()
        continue
      }
      if pages[page] != origin.home {
        guard
          memory.copyBack(pages[page], born: origin.born, home: origin.home, origin.homeTerm)
        else {
          nextAway += 1
          continue
        }
        pages[page] = origin.home
        origin.born = memory.snapshotCount
      }
      origin.isListed = false
      origins?[page] = origin
      away.swapAt(nextAway, away.count - 1)
      away.removeLast()
    }
    guard nextAway >= away.count else { return false }
    nextAway = 0
    return true
  }
}

extension BucketArray {
  /// Removes the last buckets. All their slots are free, so that ``grow(to:)`` can restore them.
  mutating func shrink(to newCount: Int) {
    assert(newCount <= count, "shrinking must not make an array longer")
    touchedCount = max(touchedCount, count)
    count = newCount
  }

  /// Returns the memory of chunks that contain no bucket any more, each as soon as no snapshot has
  /// a page of it.
  ///
  /// - Complexity: O(chunks that are returned).
  mutating func returnEmptyChunks() {
    assert(pageCount % Self.chunkPages == 0, "the pages of an array are not whole chunks")
    while pageCount > 0, (pageCount - Self.chunkPages) * Self.pageBuckets >= count {
      retireLastChunk()
    }
  }

  /// Moves the buckets to a new chunk, if only few of many buckets remain: the old chunk may lie in
  /// a checkpoint's mapping, and most of its pages were touched. Pointers into buckets are no
  /// longer valid.
  mutating func settle() {
    let touched = mappedPageCount > 0 ? pageCount * Self.pageBuckets : touchedCount
    guard pageCount == Self.chunkPages, count <= Self.settlingBuckets, touched > count * 4 else {
      return
    }
    guard let base = memory.optionalChunk() else { return }
    for page in 0..<usedPageCount {
      (base + page * Self.pageBytes).copyMemory(from: pages[page], byteCount: Self.pageBytes)
    }
    retireLastChunk()
    add(base, byteCount: Self.chunkBytes)
    touchedCount = count
  }

  /// Removes the pages of the last chunk from the table.
  private mutating func retireLastChunk() {
    precondition(pageCount >= Self.chunkPages, "a chunk is retired that the array does not have")
    let first = pageCount - Self.chunkPages
    let base = origins?[first].home ?? pages[first]
    let end = base + Self.chunkBytes / 8
    assert(
      origins?[pageCount - 1].home ?? pages[pageCount - 1] == end - Self.pageBytes / 8,
      "the pages of a chunk do not lie side by side")
    if let origins {
      for page in first..<pageCount where pages[page] != origins[page].home {
        memory.retire(copy: pages[page], born: origins[page].born)
      }
    }
    memory.retire(chunkAt: UnsafeMutableRawPointer(base), byteCount: Self.chunkBytes)
    origins?.removeLast(Self.chunkPages)
    pageCount = first
    mappedPageCount = min(mappedPageCount, pageCount)
    touchedCount = min(touchedCount, pageCount * Self.pageBuckets)
  }
}

/// The pages of the buckets at one moment. ``IndexMemory`` keeps the memory of these pages.
struct FrozenBuckets: ~Copyable {
  private let pages: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>

  fileprivate init(
    copying source: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>, pageCount: Int
  ) {
    pages = .allocate(capacity: max(1, pageCount))
    pages.initialize(from: source, count: pageCount)
  }

  deinit { pages.deallocate() }

  @inline(__always)
  subscript(_ number: Int) -> UnsafeMutablePointer<UInt64> {
    pages[number &>> BucketArray.pageShift]
      + (number & (BucketArray.pageBuckets &- 1)) &* HashIndex.slotsPerBucket
  }
}

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

  /// How many pages one operation copies back: each copy is 4 KiB.
  static let homePages = 2

  /// Copies a few pages back to original pages that no snapshot has any more. Pointers to entries
  /// are no longer valid.
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
      if !hasTendedBuckets { hasTendedBuckets = buckets.copyBack(&left) }
      if hasTendedBuckets, overflow.copyBack(&left) {
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
