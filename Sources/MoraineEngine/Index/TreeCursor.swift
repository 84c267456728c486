/// A position between two entries of a tree, or at an entry.
struct TreeCursor {
  private var path: TreePath
  /// The entry at the cursor; `count` of the leaf only after the last entry of the tree.
  private(set) var position: Int

  fileprivate init(_ path: TreePath, _ position: Int) {
    self.path = path
    self.position = position
  }
}

extension TreePages where Self: ~Copyable {
  /// Returns the cursor at the first entry of a tree that is not empty.
  func start(_ root: TreeRoot) -> TreeCursor { edge(root, isEnd: false) }

  /// Returns the cursor after the last entry of a tree that is not empty.
  func end(_ root: TreeRoot) -> TreeCursor { edge(root, isEnd: true) }

  private func edge(_ root: TreeRoot, isEnd: Bool) -> TreeCursor {
    assert(root.hasPage, "a cursor of an empty tree")
    var path = TreePath()
    var node = root.node
    for _ in 0..<root.height {
      let branch = TreeBranch(page(node))
      let index = isEnd ? branch.childCount - 1 : 0
      path.append(node, index)
      node = branch.child(index)
    }
    path.leaf = node
    return TreeCursor(path, isEnd ? TreeLeaf(page(node)).count : 0)
  }

  /// Returns the cursor at the first entry whose key is not less than a key.
  ///
  /// - Parameter following: the order in which the caller will read on, if it will.
  /// - Throws: the errors of the source. At most one record is read, unless keys share more than
  ///   254 bytes.
  func seek<Source: TreeKeySource & ~Copyable>(
    _ key: TreeKey, _ root: TreeRoot, following: KeyOrder? = nil, _ source: borrowing Source
  ) throws(StoreError) -> TreeCursor {
    let path = path(of: key, root)
    let place = try TreeLeaf(page(path.leaf)).place(of: key, following: following, source)
    return TreeCursor(path, place.position)
  }

  /// Returns the number of entries before the cursor.
  ///
  /// - Complexity: O(log n).
  func rank(_ cursor: TreeCursor) -> Int { cursor.rank(in: self) }

  /// Returns the address of the entry after the cursor, and moves the cursor past it.
  @inline(__always)
  func next(_ cursor: inout TreeCursor) -> Address? { cursor.next(in: self) }

  /// Moves the cursor from the edge of a leaf to the next leaf, or to the one before.
  ///
  /// - Returns: false when the tree has none; the cursor has not moved.
  func moveToLeaf(_ cursor: inout TreeCursor, isForward: Bool) -> Bool {
    cursor.moveToLeaf(in: self, isForward: isForward)
  }

  /// Returns the address of the entry before the cursor, and moves the cursor before it.
  @inline(__always)
  func previous(_ cursor: inout TreeCursor) -> Address? { cursor.previous(in: self) }
}

extension TreeCursor {
  /// The leaf at the cursor.
  var leaf: Int { path.leaf }

  /// Whether this cursor comes before another one of the same tree.
  func precedes(_ other: TreeCursor) -> Bool {
    assert(path.depth == other.path.depth, "cursors of two trees are compared")
    for level in 0..<path.depth where path.index(level) != other.path.index(level) {
      return path.index(level) < other.path.index(level)
    }
    return position < other.position
  }

  /// Moves past entries of the leaf at the cursor; past entries before it for a negative count.
  mutating func skip(_ count: Int) { position += count }

  fileprivate func rank<Pages: TreePages & ~Copyable>(in pages: borrowing Pages) -> Int {
    var rank = position
    for level in 0..<path.depth {
      let branch = TreeBranch(pages.page(path.node(level)))
      for index in 0..<path.index(level) { rank += branch.count(index) }
    }
    return rank
  }

  @inline(__always)
  fileprivate mutating func next<Pages: TreePages & ~Copyable>(
    in pages: borrowing Pages
  ) -> Address? {
    let leaf = TreeLeaf(pages.page(path.leaf))
    if position < leaf.count {
      position &+= 1
      return leaf.address(position &- 1)
    }
    guard moveToLeaf(in: pages, isForward: true) else { return nil }
    assert(TreeLeaf(pages.page(path.leaf)).count > 0, "a leaf has no entry")
    position = 1
    return TreeLeaf(pages.page(path.leaf)).address(0)
  }

  @inline(__always)
  fileprivate mutating func previous<Pages: TreePages & ~Copyable>(
    in pages: borrowing Pages
  ) -> Address? {
    if position == 0 {
      guard moveToLeaf(in: pages, isForward: false) else { return nil }
    }
    position &-= 1
    return TreeLeaf(pages.page(path.leaf)).address(position)
  }

  /// Moves before the first entry of the next leaf, or after the last entry of the leaf before.
  ///
  /// - Returns: false when there is none; the cursor has not moved.
  fileprivate mutating func moveToLeaf<Pages: TreePages & ~Copyable>(
    in pages: borrowing Pages, isForward: Bool
  ) -> Bool {
    var level = path.depth
    while level > 0 {
      level -= 1
      let index = path.index(level)
      if isForward
        ? index + 1 < TreeBranch(pages.page(path.node(level))).childCount : index > 0
      {
        descend(in: pages, from: level, isForward: isForward)
        position = isForward ? 0 : TreeLeaf(pages.page(path.leaf)).count
        return true
      }
    }
    return false
  }

  private mutating func descend<Pages: TreePages & ~Copyable>(
    in pages: borrowing Pages, from level: Int, isForward: Bool
  ) {
    let depth = path.depth
    while path.depth > level + 1 { _ = path.removeLast() }
    path.setIndex(level, path.index(level) + (isForward ? 1 : -1))
    var node = TreeBranch(pages.page(path.node(level))).child(path.index(level))
    while path.depth < depth {
      let branch = TreeBranch(pages.page(node))
      let index = isForward ? 0 : branch.childCount - 1
      path.append(node, index)
      node = branch.child(index)
    }
    path.leaf = node
  }
}

/// The trees of an index as they were at one moment. Any thread that has them may read them.
struct FrozenTrees: ~Copyable, TreePages {
  private let nodes: FrozenBuckets
  private let roots: [UInt16: TreeRoot]
  let ordered: OrderedKeyspaces
  /// Number of entries in all trees.
  let count: Int
  private let memory: IndexMemory
  private let number: UInt64

  init(
    _ nodes: consuming FrozenBuckets, _ roots: [UInt16: TreeRoot], _ ordered: OrderedKeyspaces,
    _ count: Int, _ memory: IndexMemory, _ number: UInt64
  ) {
    self.ordered = ordered
    self.nodes = nodes
    self.roots = roots
    self.count = count
    self.memory = memory
    self.number = number
  }

  deinit { memory.release(number) }

  @inline(__always)
  func page(_ node: Int) -> UnsafeMutablePointer<UInt64> { nodes[node &<< BucketArray.pageShift] }

  func root(_ keyspace: UInt16) -> TreeRoot { roots[keyspace] ?? TreeRoot() }

  @inline(__always)
  func isOrdered(_ keyspace: UInt16) -> Bool { ordered.contains(keyspace) }
}
