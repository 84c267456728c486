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
  /// Number of snapshots that had ended when ``tend()`` last looked at all copies.
  var tendedThrough: UInt64 = 0
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
    if leaf.count < min(leaf.capacity, leafLimit), leaf.accepts(key, place.place) {
      leaf.insert(key, address, place.place)
      addToCounts(path, 1)
    } else {
      scratch.removeAll()
      scratch.addPrefix(leaf)
      scratch.append(leaf, 0..<position)
      scratch.append(key, address, shared: position == 0 ? 0 : place.place.sharedBefore)
      scratch.append(leaf, position..<leaf.count)
      if position < leaf.count {
        scratch.setShared(position + 1, place.place.sharedAfter, place.place.byteAfter)
      }
      let isAppended = position == leaf.count && leaf.appendedCount >= 2
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

// Leaves that are full or nearly empty.
extension TreeIndex {
  func isNearlyEmpty(_ leaf: TreeLeaf) -> Bool {
    leaf.count < min(leaf.capacity, leafLimit) / 4 || leaf.count == 0
  }

  /// A child that takes the place of another one, and the separator before it.
  private struct Child {
    let node: Int
    let count: Int
    let separator: [UInt8]
  }

  /// Writes the entries in `scratch` over a leaf: into it, into it and its neighbour, or into it
  /// and new leaves.
  mutating func writeScratch<Source: TreeKeySource & ~Copyable>(
    over path: TreePath, _ root: inout TreeRoot, isAppended: Bool, appendedCount: Int,
    mayGive: Bool = true, _ source: borrowing Source
  ) {
    let whole = 0..<scratch.count
    let difference = scratch.count - leaf(path.leaf).count
    if scratch.fits(whole, limit: leafLimit) {
      scratch.write(whole, to: leaf(path.leaf))
      leaf(path.leaf).appendedCount = appendedCount
      addToCounts(path, difference)
      return
    }
    if mayGive, !isAppended, giveToNeighbour(path, &root, source) { return }
    var bounds: [(index: Int, separator: [UInt8])] = []
    divide(whole, isAppended: isAppended, &bounds)
    bounds.sort { $0.index < $1.index }
    var children: [Child] = []
    for (place, bound) in ([(0, [])] + bounds).enumerated() {
      let end = place < bounds.count ? bounds[place].index : scratch.count
      let node = place == 0 ? path.leaf : allocate()
      scratch.lengthenPrefix(of: bound.0..<end, source)
      scratch.write(bound.0..<end, to: leaf(node))
      children.append(Child(node: node, count: end - bound.0, separator: bound.1))
    }
    if let last = children.last { leaf(last.node).appendedCount = appendedCount }
    replaceChild(path, by: children, &root)
  }

  /// Finds places to divide a range of `scratch` so that each part fits into a leaf.
  private func divide(
    _ range: Range<Int>, isAppended: Bool, _ bounds: inout [(index: Int, separator: [UInt8])]
  ) {
    if scratch.fits(range, limit: leafLimit) { return }
    let target = isAppended ? fullLeaf(of: range) : (range.lowerBound + range.upperBound) / 2
    for distance in 0..<range.count {
      for index in [target - distance, target + distance]
      where index > range.lowerBound && index < range.upperBound {
        guard let separator = scratch.separator(before: index) else { continue }
        bounds.append((index, separator))
        divide(range.lowerBound..<index, isAppended: false, &bounds)
        divide(index..<range.upperBound, isAppended: isAppended, &bounds)
        return
      }
    }
    fatalError("a leaf that does not fit its page has an inserted key, which separates it")
  }

  /// Returns the end of the entries at the beginning of a range that fill a leaf.
  private func fullLeaf(of range: Range<Int>) -> Int {
    for capacity in [TreeLeaf.plainCapacity, TreeLeaf.tiedCapacity] {
      let end = min(range.lowerBound + min(leafLimit, capacity), range.upperBound - 1)
      if scratch.fits(range.lowerBound..<end, limit: leafLimit) { return end }
    }
    return (range.lowerBound + range.upperBound) / 2
  }

  /// Replaces a child of the last branch of a path, or the root, by several children.
  private mutating func replaceChild(
    _ path: TreePath, by children: [Child], _ root: inout TreeRoot
  ) {
    var path = path
    var children = children
    while path.depth > 0 {
      let (node, index) = path.removeLast()
      makeUnique(node)
      let branch = TreeBranch(page(node))
      let level = branch.level
      var contents = branch.contents
      contents.children.replaceSubrange(index...index, with: children.map(\.node))
      contents.counts.replaceSubrange(index...index, with: children.map(\.count))
      contents.separators.insert(contentsOf: children.dropFirst().map(\.separator), at: index)
      let isAppended = index == branch.childCount - 1
      children = write(contents, to: node, level: level, isAppended: isAppended)
      if children.count == 1 {
        let total = children[0].count
        setCounts(path, total)
        return
      }
    }
    while children.count > 1 {
      root.height += 1
      let node = allocate()
      var contents = TreeBranch.Contents()
      contents.children = children.map(\.node)
      contents.counts = children.map(\.count)
      contents.separators = children.dropFirst().map(\.separator)
      children = write(contents, to: node, level: root.height, isAppended: false)
      root.node = node
    }
    root.node = children[0].node
  }

  /// Sets the counts of the branches above a node whose number of entries changed.
  private mutating func setCounts(_ path: TreePath, _ total: Int) {
    guard path.depth > 0 else { return }
    let last = path.depth - 1
    let before = TreeBranch(page(path.node(last))).count(path.index(last))
    addToCounts(path, total - before)
  }

  /// Writes a branch: into its node, and into new ones when it is too large.
  private mutating func write(
    _ contents: TreeBranch.Contents, to node: Int, level: Int, isAppended: Bool
  ) -> [Child] {
    var ranges: [Range<Int>] = []
    divide(contents, 0..<contents.children.count, isAppended: isAppended, &ranges)
    return ranges.enumerated().map { place, range in
      let target = place == 0 ? node : allocate()
      TreeBranch(page(target)).write(contents, range, level: level)
      return Child(
        node: target, count: contents.counts[range].reduce(0, +),
        separator: place == 0 ? [] : contents.separators[range.lowerBound - 1])
    }
  }

  private func divide(
    _ contents: TreeBranch.Contents, _ range: Range<Int>, isAppended: Bool,
    _ ranges: inout [Range<Int>]
  ) {
    if range.count <= branchLimit, contents.byteCount(range) <= TreeLeaf.pageBytes {
      ranges.append(range)
      return
    }
    precondition(range.count > 2, "two children of a branch do not fit a page")
    var middle = (range.lowerBound + range.upperBound) / 2
    if isAppended {
      // As many children as fit, but for two.
      while middle < range.upperBound - 2, middle + 1 - range.lowerBound <= branchLimit,
        contents.byteCount(range.lowerBound..<middle + 1) <= TreeLeaf.pageBytes
      {
        middle += 1
      }
    }
    divide(contents, range.lowerBound..<middle, isAppended: false, &ranges)
    divide(contents, middle..<range.upperBound, isAppended: isAppended, &ranges)
  }
}

extension TreeIndex {
  /// Gives entries of `scratch`, which do not fit into their leaf, to a neighbour below the same
  /// branch that has room for them, so that leaves are fuller. (Bayer and McCreight, "Organization
  /// and maintenance of large ordered indexes", Acta Informatica 1972: "overflow".)
  private mutating func giveToNeighbour<Source: TreeKeySource & ~Copyable>(
    _ path: TreePath, _ root: inout TreeRoot, _ source: borrowing Source
  ) -> Bool {
    guard path.depth > 0 else { return false }
    let (node, index) = (path.node(path.depth - 1), path.index(path.depth - 1))
    let branch = TreeBranch(page(node))
    for other in [index + 1, index - 1] where other >= 0 && other < branch.childCount {
      let neighbour = leaf(branch.child(other))
      let moved = (scratch.count - neighbour.count) / 2
      // The heads of the neighbour must not become much less selective.
      guard moved > scratch.count / 8,
        leaf(path.leaf).prefix.starts(with: neighbour.prefix.dropLast(Self.lostPrefix))
      else { continue }
      if give(moved, to: other, from: path, source) { return true }
    }
    return false
  }

  /// Moves entries of `scratch` to the child before or after their own.
  private mutating func give<Source: TreeKeySource & ~Copyable>(
    _ moved: Int, to other: Int, from path: TreePath, _ source: borrowing Source
  ) -> Bool {
    var above = path
    let (node, index) = above.removeLast()
    let isAfter = other > index
    let boundary = isAfter ? scratch.count - moved : moved
    let target = TreeBranch(page(node)).child(other)
    let kept = isAfter ? 0..<boundary : boundary..<scratch.count
    var joined = scratch
    joined.keepOnly(isAfter ? boundary..<scratch.count : 0..<boundary)
    guard let separator = scratch.separator(before: boundary),
      scratch.fits(kept, limit: leafLimit),
      joined.join(leaf(target), isAfter: isAfter, source),
      joined.fits(0..<joined.count, limit: leafLimit)
    else { return false }
    var contents = TreeBranch(page(node)).contents
    contents.counts[index] = kept.count
    contents.counts[other] = joined.count
    contents.separators[min(index, other)] = separator
    let children = 0..<contents.children.count
    guard contents.byteCount(children) <= TreeLeaf.pageBytes else { return false }
    makeUnique(target)
    makeUnique(node)
    joined.write(0..<joined.count, to: leaf(target))
    scratch.write(kept, to: leaf(path.leaf))
    TreeBranch(page(node)).write(contents, children, level: 1)
    setCounts(above, contents.total)
    return true
  }

  /// Makes a tree smaller after removals have left few entries in a leaf.
  mutating func shrink<Source: TreeKeySource & ~Copyable>(
    _ path: TreePath, _ root: inout TreeRoot, _ source: borrowing Source
  ) {
    let small = leaf(path.leaf)
    guard path.depth > 0 else {
      if small.count == 0 {
        free(root.node)
        root = TreeRoot()
      }
      return
    }
    if small.count == 0 {
      removeChild(path, &root)
      return
    }
    let (node, index) = (path.node(path.depth - 1), path.index(path.depth - 1))
    let branch = TreeBranch(page(node))
    for left in [index, index - 1] where left >= 0 && left + 1 < branch.childCount {
      if merge(left, path, &root, source) { return }
    }
  }

  /// Merges a leaf and the one after it, if both together are not nearly full.
  private mutating func merge<Source: TreeKeySource & ~Copyable>(
    _ left: Int, _ path: TreePath, _ root: inout TreeRoot, _ source: borrowing Source
  ) -> Bool {
    let branch = TreeBranch(page(path.node(path.depth - 1)))
    let (first, second) = (leaf(branch.child(left)), leaf(branch.child(left + 1)))
    let most = min(leafLimit, TreeLeaf.tiedCapacity)
    guard first.count + second.count <= most * 3 / 4 else { return false }
    scratch.removeAll()
    scratch.addPrefix(first)
    scratch.append(first, 0..<first.count)
    guard scratch.join(second, isAfter: true, source),
      scratch.fits(0..<scratch.count, limit: leafLimit)
    else { return false }
    let (target, removed) = (branch.child(left), branch.child(left + 1))
    makeUnique(target)
    scratch.write(0..<scratch.count, to: leaf(target))
    var last = path
    last.setIndex(path.depth - 1, left + 1)
    last.leaf = removed
    let node = path.node(path.depth - 1)
    makeUnique(node)
    TreeBranch(page(node)).addToCount(left, second.count)
    TreeBranch(page(node)).addToCount(left + 1, -second.count)
    removeChild(last, &root)
    return true
  }

  /// Removes a leaf without entries, or whose entries another leaf has, and branches that have no
  /// child left.
  private mutating func removeChild(_ path: TreePath, _ root: inout TreeRoot) {
    var path = path
    free(path.leaf)
    while path.depth > 0 {
      let (node, index) = path.removeLast()
      makeUnique(node)
      let branch = TreeBranch(page(node))
      var contents = branch.contents
      contents.children.remove(at: index)
      contents.counts.remove(at: index)
      if !contents.separators.isEmpty { contents.separators.remove(at: max(0, index - 1)) }
      if contents.children.isEmpty {
        free(node)
        continue
      }
      branch.write(contents, 0..<contents.children.count, level: branch.level)
      mergeBranch(node, path)
      break
    }
    guard root.count > 0 else {
      root = TreeRoot()
      return
    }
    while root.height > 0, loaded?.isValidated(root.node) ?? true,
      TreeBranch(page(root.node)).childCount == 1
    {
      free(root.node)
      root.node = TreeBranch(page(root.node)).child(0)
      root.height -= 1
    }
  }

  /// Merges a branch that is nearly empty with a neighbour below the same branch.
  private mutating func mergeBranch(_ node: Int, _ above: TreePath) {
    guard above.depth > 0 else { return }
    let (parent, index) = (above.node(above.depth - 1), above.index(above.depth - 1))
    let own = TreeBranch(page(node)).contents
    guard own.byteCount(0..<own.children.count) < TreeLeaf.pageBytes / 4 else { return }
    let branch = TreeBranch(page(parent))
    for left in [index, index - 1] where left >= 0 && left + 1 < branch.childCount {
      let (first, second) = (branch.child(left), branch.child(left + 1))
      var contents = TreeBranch(page(first)).contents
      let other = TreeBranch(page(second)).contents
      contents.separators += [branch.separator(left)] + other.separators
      contents.children += other.children
      contents.counts += other.counts
      let whole = 0..<contents.children.count
      guard whole.count <= branchLimit,
        contents.byteCount(whole) <= TreeLeaf.pageBytes * 3 / 4
      else { continue }
      makeUnique(first)
      makeUnique(parent)
      let level = TreeBranch(page(first)).level
      TreeBranch(page(first)).write(contents, whole, level: level)
      free(second)
      var outer = TreeBranch(page(parent)).contents
      outer.children.remove(at: left + 1)
      outer.counts[left] += outer.counts.remove(at: left + 1)
      outer.separators.remove(at: left)
      TreeBranch(page(parent)).write(
        outer, 0..<outer.children.count, level: TreeBranch(page(parent)).level)
      return
    }
  }
}
