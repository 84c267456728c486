import MoraineStorage

// Memory. A change that has begun cannot fail, so its memory is taken before.
extension TreeIndex {
  /// The most pages that one insertion may add: a leaf, a branch on each level, and a root.
  private static let pagesPerChange = TreePath.limit + 2

  /// Takes ahead the memory that changes may need.
  ///
  /// - Parameter changes: how many keys are inserted, moved or removed.
  /// - Throws: `.limitExceeded` when the system gives no memory.
  mutating func secure(changes: Int) throws(StoreError) {
    // Leaves that are divided are half full, and branches grow with the leaves.
    let added = Self.pagesPerChange + 2 * changes
    let chunks = 1 + (added << BucketArray.pageShift) / BucketArray.chunkBuckets
    let pages =
      isFrozen
      ? min(changes * 2 * Self.pagesPerChange, nodes.usedPageCount) + added
        + copiedPages(moves: movesUnderWay) : 0
    try storing { () throws(StorageError) in try memory.secure(chunks: chunks, pages: pages) }
    isShort = false
  }

  /// The most pages that moving this number of entries may copy.
  private func copiedPages(moves: Int) -> Int { min(moves, nodes.usedPageCount) }

  /// Takes ahead the memory for moving this number of entries.
  ///
  /// - Throws: as ``secure(changes:)``.
  mutating func beginMoves(_ count: Int) throws(StoreError) {
    assert(movesUnderWay == 0, "two compactions move entries at the same time")
    if isFrozen { try secureCopies(moves: count) }
    movesUnderWay = count
  }

  /// Takes ahead the memory for copies that the moves under way need after a snapshot was taken.
  ///
  /// - Throws: as ``secure(changes:)``; then the snapshot must be released.
  func secureMoves() throws(StoreError) {
    if movesUnderWay > 0 { try secureCopies(moves: movesUnderWay) }
  }

  private func secureCopies(moves: Int) throws(StoreError) {
    try storing { () throws(StorageError) in
      try memory.secure(chunks: 0, pages: copiedPages(moves: moves))
    }
  }

  /// Takes ahead the memory that one change may need, where the trees may lack it.
  ///
  /// - Throws: as ``secure(changes:)``.
  @inline(__always)
  mutating func secureChange() throws(StoreError) {
    if isFrozen || isShort { try secure(changes: 1) }
  }

  /// Copies pages back to their original memory, where no snapshot needs that any more.
  ///
  /// - Returns: whether more pages can be looked at now.
  @discardableResult
  mutating func tend(pages limit: Int = 4) -> Bool {
    // Only a snapshot that has ended can have left a page that may be copied back.
    let released = memory.releaseCount
    guard isFrozen, released != tendedThrough else { return false }
    // A release that happens during a round is seen in the next round.
    if roundBegan == nil { roundBegan = released }
    var left = limit
    guard nodes.copyBack(&left) else { return true }
    tendedThrough = roundBegan ?? released
    roundBegan = nil
    if !memory.isFrozen, !nodes.isAway { isFrozen = false }
    return nodes.isAway && released != tendedThrough
  }

  /// Returns the memory of free pages at the end, by whole chunks. The first chunk stays: a tree
  /// that becomes empty again and again would ask the system for it each time.
  mutating func returnFreePages() {
    var last = nodes.count >> BucketArray.pageShift - 1
    guard last > 0, freeNodes.contains(last) else { return }
    while last > 0, freeNodes.contains(last) {
      freeNodes.remove(last)
      last -= 1
    }
    nodes.shrink(to: (last + 1) << BucketArray.pageShift)
    nodes.returnEmptyChunks()
  }

  /// Removes all entries of a keyspace, and releases the pages of its tree.
  mutating func removeAll(of keyspace: UInt16) {
    let root = root(keyspace)
    count -= root.count
    if root.hasPage { releasePages(root.node, height: root.height) }
    setRoot(keyspace, TreeRoot())
    returnFreePages()
  }

  /// Releases a node and the nodes below it.
  mutating func releasePages(_ node: Int, height: Int) {
    if height > 0 {
      for child in TreeBranch(page(node)).contents.children {
        releasePages(child, height: height - 1)
      }
    }
    free(node)
  }
}
