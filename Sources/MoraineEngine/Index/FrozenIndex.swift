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

extension HashIndex {
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
