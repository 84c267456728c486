import MoraineFormat
import MoraineStorage

/// The index of the ordered keyspaces: a B+tree for each, with the addresses of records in the
/// order of their keys.
///
/// All trees share one array of pages, so that a snapshot freezes them together: see
/// ``BucketArray``. Nodes refer to each other by number. The keys are in the log; see ``TreeLeaf``
/// for the part of them that a leaf has.
///
/// An insertion finds its place first, and then cannot fail: a change of the tree reads no record,
/// except where it can be left out when the record is damaged.
struct TreeIndex: ~Copyable, TreePages {
  let memory: IndexMemory
  var nodes: BucketArray
  /// The roots by keyspace, those of the system after the others.
  private var roots: [TreeRoot] = []
  private var systemRoots: [TreeRoot] = []
  var freeNodes = FreeNumbers()
  /// Number of entries in all trees.
  var count = 0
  /// Whether any keyspace is ordered.
  private(set) var hasOrdered = false
  private(set) var ordered: OrderedKeyspaces
  /// The entries that are being written into leaves, kept so that a change allocates little.
  var scratch = TreeEntries()
  /// Whether a snapshot may have a page that is about to change.
  var isFrozen = false
  /// Number of entries that a compaction is about to move; these moves must not fail.
  var movesUnderWay = 0
  /// Number of snapshots that had ended when ``tend(pages:)`` began its last complete round, and
  /// when it began the round under way.
  var tendedThrough: UInt64 = 0
  var roundBegan: UInt64?
  /// Nodes of a checkpoint, as long as some may not have been validated.
  var loaded: CheckpointTrees?
  /// Whether the trees lack memory that was taken ahead.
  var isShort = true
  /// The most entries of a leaf, and children of a branch. Tests make trees of small nodes.
  let leafLimit: Int
  let branchLimit: Int

  init(
    ordered: OrderedKeyspaces = OrderedKeyspaces(), _ memory: IndexMemory = IndexMemory(),
    leafLimit: Int = .max, branchLimit: Int = .max
  ) {
    self.memory = memory
    self.ordered = ordered
    hasOrdered = !ordered.isEmpty
    self.leafLimit = leafLimit
    self.branchLimit = branchLimit
    nodes = BucketArray(memory)
  }

  @inline(__always)
  func page(_ node: Int) -> UnsafeMutablePointer<UInt64> { nodes[node &<< BucketArray.pageShift] }

  @inline(__always)
  func root(_ keyspace: UInt16) -> TreeRoot {
    if keyspace >= Self.firstSystemID {
      let place = Int(keyspace &- Self.firstSystemID)
      return place < systemRoots.count ? systemRoots[place] : TreeRoot()
    }
    return Int(keyspace) < roots.count ? roots[Int(keyspace)] : TreeRoot()
  }

  static let lostPrefix = 2

  private static let firstSystemID: UInt16 = 0xFF00

  @inline(__always)
  mutating func setRoot(_ keyspace: UInt16, _ root: TreeRoot) {
    if keyspace < Self.firstSystemID, Int(keyspace) < roots.count {
      roots[Int(keyspace)] = root
    } else {
      addRoot(keyspace, root)
    }
  }

  private mutating func addRoot(_ keyspace: UInt16, _ root: TreeRoot) {
    func set(_ place: Int, _ list: inout [TreeRoot]) {
      while list.count <= place { list.append(TreeRoot()) }
      list[place] = root
    }
    if keyspace >= Self.firstSystemID {
      set(Int(keyspace - Self.firstSystemID), &systemRoots)
    } else {
      set(Int(keyspace), &roots)
    }
  }

  /// Whether the index of a keyspace is a tree.
  @inline(__always)
  func isOrdered(_ keyspace: UInt16) -> Bool { hasOrdered && ordered.contains(keyspace) }

  /// Makes a keyspace ordered. It has no entry yet, in this index and in any other.
  mutating func order(_ keyspace: UInt16) {
    ordered.insert(keyspace)
    hasOrdered = true
  }

  /// The roots of all trees that have entries.
  var allRoots: [UInt16: TreeRoot] {
    var result: [UInt16: TreeRoot] = [:]
    for (id, root) in roots.enumerated() where root.hasPage { result[UInt16(id)] = root }
    for (id, root) in systemRoots.enumerated() where root.hasPage {
      result[Self.firstSystemID + UInt16(id)] = root
    }
    return result
  }

  /// Returns the trees as they are now.
  ///
  /// All nodes were validated before.
  ///
  /// - Complexity: O(pages), eight bytes for each; later, each page is copied at its first change.
  mutating func freeze() -> FrozenTrees {
    precondition(!hasUnvalidatedPages, "trees with unvalidated pages must not be frozen")
    let number = memory.takeSnapshot()
    isFrozen = true
    return FrozenTrees(nodes.freeze(), allRoots, ordered, count, memory, number)
  }

  func leaf(_ node: Int) -> TreeLeaf { TreeLeaf(page(node)) }

  /// Number of pages in use, and their size in bytes.
  var pageCount: Int { nodes.count >> BucketArray.pageShift &- freeNodes.count }
  var byteCount: Int { pageCount * BucketArray.pageBytes }

  /// Returns the root of a tree, which gets an empty leaf when it has no page.
  mutating func rootWithPage(_ keyspace: UInt16) -> TreeRoot {
    var root = root(keyspace)
    guard !root.hasPage else { return root }
    root.node = allocate()
    root.hasPage = true
    leaf(root.node).clear()
    return root
  }

  mutating func makeUnique(_ node: Int) {
    if isFrozen { nodes.makeUnique(node << BucketArray.pageShift) }
  }

  mutating func allocate() -> Int {
    if let number = freeNodes.removeLowest() {
      makeUnique(number)
      return number
    }
    let number = nodes.count >> BucketArray.pageShift
    if nodes.grow(to: nodes.count + BucketArray.pageBuckets) { isShort = true }
    makeUnique(number)
    return number
  }

  mutating func free(_ node: Int) { freeNodes.insert(node) }
}

/// A key's place in a tree, found before the key's record is appended.
struct TreePlace {
  let path: TreePath
  let place: LeafPlace
  /// Address of the key's present record; nil when the key has none.
  let existing: Address?
}

extension TreeIndex {
  /// Finds the place of a key.
  ///
  /// - Throws: the errors of the source.
  func place<Source: TreeKeySource & ~Copyable>(
    of key: TreeKey, in keyspace: UInt16, _ source: borrowing Source
  ) throws(StoreError) -> TreePlace {
    let root = root(keyspace)
    guard root.hasPage else {
      return TreePlace(path: TreePath(), place: LeafPlace(position: 0), existing: nil)
    }
    let path = path(of: key, root)
    let leaf = leaf(path.leaf)
    let place = try leaf.place(of: key, source)
    return TreePlace(
      path: path, place: place, existing: place.isMatch ? leaf.address(place.position) : nil)
  }

  /// Lets the entry of a key name another record of the key.
  mutating func replace(_ place: TreePlace, with address: Address) {
    precondition(place.existing != nil, "an entry is changed that does not exist")
    makeUnique(place.path.leaf)
    leaf(place.path.leaf).setAddress(place.place.position, address)
  }

  /// Adds an entry for a key. The tree has not changed since the place was found.
  ///
  /// - Parameter source: for steps that make the tree better, and that are left out when it throws.
  mutating func insert<Source: TreeKeySource & ~Copyable>(
    _ key: TreeKey, _ address: Address, at place: TreePlace, in keyspace: UInt16,
    _ source: borrowing Source
  ) {
    assert(place.existing == nil, "a key gets two entries")
    var root = rootWithPage(keyspace)
    var path = place.path
    if path.depth == 0 { path.leaf = root.node }
    root.count += 1
    count += 1
    makeUnique(path.leaf)
    let leaf = leaf(path.leaf)
    let position = place.place.position
    let isAppended = position == leaf.count && leaf.appendedCount >= 2
    if leaf.count < min(leaf.capacity, leafLimit), leaf.accepts(key, place.place) {
      leaf.insert(key, address, place.place)
      addToCounts(path, 1)
    } else if isAppended || !insertIntoFull(key, address, place.place, path, &root) {
      scratch.removeAll()
      scratch.addPrefix(leaf)
      scratch.append(leaf, 0..<position)
      scratch.append(key, address, shared: position == 0 ? 0 : place.place.sharedBefore)
      scratch.append(leaf, position..<leaf.count)
      if position < leaf.count {
        scratch.setShared(position + 1, place.place.sharedAfter, place.place.byteAfter)
      }
      let appended = position == leaf.count ? leaf.appendedCount + 1 : 0
      writeScratch(
        over: path, &root, isAppended: isAppended, appendedCount: appended, source)
    }
    setRoot(keyspace, root)
  }

  /// Removes the entry of a key.
  ///
  /// - Parameter source: for merging leaves.
  mutating func remove<Source: TreeKeySource & ~Copyable>(
    _ place: TreePlace, in keyspace: UInt16, _ source: borrowing Source
  ) {
    precondition(place.existing != nil, "an entry is removed that does not exist")
    var root = root(keyspace)
    root.count -= 1
    count -= 1
    makeUnique(place.path.leaf)
    let leaf = leaf(place.path.leaf)
    leaf.remove(place.place.position)
    addToCounts(place.path, -1)
    if isNearlyEmpty(leaf) {
      shrink(place.path, &root, source)
      returnFreePages()
    }
    setRoot(keyspace, root)
  }

  /// Lets the entry of one record of a key name another address. Reads no record.
  ///
  /// - Returns: whether the entry existed.
  mutating func move(
    _ old: Address, to new: Address, _ key: TreeKey, in keyspace: UInt16
  ) -> Bool {
    guard let (node, position) = self.place(of: old, key, root(keyspace)) else { return false }
    makeUnique(node)
    leaf(node).setAddress(position, new)
    return true
  }

  mutating func addToCounts(_ path: TreePath, _ difference: Int) {
    for level in 0..<path.depth {
      makeUnique(path.node(level))
      TreeBranch(page(path.node(level))).addToCount(path.index(level), difference)
    }
  }
}
