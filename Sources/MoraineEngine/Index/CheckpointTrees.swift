import MoraineFormat
import MoraineStorage

/// Tree pages of a checkpoint. Each node is validated when it is first needed, so that opening does
/// not cost a look at every key.
///
/// A checksum detects damage. Beyond that, a node is checked against what its parent says of it, so
/// that a forged file leads to no circle, to no node in two places and to no place outside a page.
/// Whether the entries have the order of their keys cannot be seen without the log: a look-up that
/// reads a record compares it with the leaf, and ``Store/verify()`` compares all.
final class CheckpointTrees {
  /// The separators between which the keys below a node lie; nil where there is no bound.
  struct Bounds {
    var lower: [UInt8]?
    var upper: [UInt8]?
  }

  /// A node that was not validated when its parent was.
  private struct Pending {
    let node: Int
    let level: Int
    let count: Int
    let bounds: Bounds
  }

  let header: CheckpointHeader
  private let mapping: any FileMapping
  private let places: CoveredPlaces
  private var isChecked: [Bool]
  private var claimed: [UInt64]
  private var validated: [UInt64]
  /// Number of nodes that were validated.
  private(set) var validatedCount = 0
  /// All nodes that a validated node has claimed, in that order; the first ones were validated.
  private var pending: [Pending] = []
  private var nextPending = 0

  init(_ pages: CheckpointPages) {
    header = pages.header
    mapping = pages.mapping
    places = pages.places
    isChecked = Array(repeating: false, count: header.treePageCount)
    let words = (Int(header.nodeCount) + 63) / 64
    claimed = Array(repeating: 0, count: words)
    validated = Array(repeating: 0, count: words)
  }

  var base: UnsafeMutableRawPointer { mapping.base + header.treeOffset }
  var nodeCount: Int { Int(header.nodeCount) }

  func isValidated(_ node: Int) -> Bool {
    node >= nodeCount || validated[node >> 6] & 1 << UInt64(node & 63) != 0
  }

  /// Claims a node for one parent.
  ///
  /// - Returns: false for a node that another parent has, or that the checkpoint does not have.
  private func claim(_ node: Int) -> Bool {
    guard node < nodeCount, claimed[node >> 6] & 1 << UInt64(node & 63) == 0 else { return false }
    claimed[node >> 6] |= 1 << UInt64(node & 63)
    return true
  }

  /// Whether the page of a node is what was written.
  func checkPage(ofNode node: Int) -> Bool {
    let page = node / CheckpointHeader.nodesPerPage
    if isChecked[page] { return true }
    let bytes = UnsafeRawBufferPointer(
      start: base + page * CheckpointHeader.pageBytes, count: CheckpointHeader.pageBytes)
    let number = header.bucketPageCount + header.overflowPageCount + page
    guard header.checksum(ofPage: number, bytes) == header.pageChecksums[number] else {
      return false
    }
    isChecked[page] = true
    return true
  }

  /// Claims the roots of all trees.
  func claimRoots() -> Bool {
    header.trees.allSatisfy { tree in
      guard tree.entryCount > 0 else { return true }
      return claim(
        Pending(
          node: Int(tree.root), level: Int(tree.height), count: Int(clamping: tree.entryCount),
          bounds: Bounds()))
    }
  }

  private func claim(_ node: Pending) -> Bool {
    guard claim(node.node) else { return false }
    pending.append(node)
    return true
  }

  /// Validates a node that a validated parent, or a root, names.
  ///
  /// - Parameters:
  ///   - page: the bytes of the node.
  ///   - level: the level below that of the parent.
  ///   - count: the number of entries that the parent counts.
  func validate(
    _ node: Int, _ page: UnsafeMutablePointer<UInt64>, level: Int, count: Int, _ bounds: Bounds
  ) -> Bool {
    if isValidated(node) { return true }
    guard checkPage(ofNode: node) else { return false }
    if level == 0 {
      let leaf = TreeLeaf(page)
      guard leaf.isSound(count: count),
        (0..<count).allSatisfy({ places.contains(leaf.address($0)) })
      else { return false }
    } else {
      let branch = TreeBranch(page)
      guard branch.isSound(level: level, count: count, bounds) else { return false }
      for index in 0..<branch.childCount {
        let child = Pending(
          node: branch.child(index), level: level - 1, count: branch.count(index),
          bounds: branch.bounds(index, within: bounds))
        guard claim(child) else { return false }
      }
    }
    validated[node >> 6] |= 1 << UInt64(node & 63)
    validatedCount += 1
    return true
  }

  /// Validates the next nodes.
  ///
  /// - Returns: nil when a node is not what was written; otherwise whether there may be more.
  func validateNext(
    _ limit: Int, page: (Int) -> UnsafeMutablePointer<UInt64>
  ) -> Bool? {
    var left = limit
    while nextPending < pending.count, left > 0 {
      let next = pending[nextPending]
      // A validated node may have left the trees, and its page the array.
      guard
        isValidated(next.node)
          || validate(
            next.node, page(next.node), level: next.level, count: next.count, next.bounds)
      else { return nil }
      nextPending += 1
      left -= 1
    }
    if nextPending < pending.count { return true }
    // The writer writes only the nodes that belong to a tree.
    return validatedCount == nodeCount ? false : nil
  }
}

extension TreeIndex {
  /// Creates the trees from a checkpoint. Their nodes are validated when they are needed.
  ///
  /// - Parameter ordered: the ordered keyspaces of the manifest: those of the checkpoint, and
  ///   others that had no entry when the checkpoint was written.
  /// - Returns: nil when the last pages, which are copied, are damaged, or a root is in two trees.
  /// - Throws: `.limitExceeded` when the system gives no memory.
  init?(
    _ pages: CheckpointPages, ordered: OrderedKeyspaces, leafLimit: Int = .max,
    branchLimit: Int = .max
  ) throws(StoreError) {
    self.init(ordered: ordered, leafLimit: leafLimit, branchLimit: branchLimit)
    let trees = CheckpointTrees(pages)
    guard trees.nodeCount > 0 else { return }
    try secure(changes: 1)
    let bucketCount = trees.nodeCount << BucketArray.pageShift
    let mapped = BucketArray.firstOfLastChunk(bucketCount)
    let firstCopied = mapped >> BucketArray.pageShift
    guard
      stride(from: firstCopied, to: trees.nodeCount, by: CheckpointHeader.nodesPerPage)
        .allSatisfy({ trees.checkPage(ofNode: $0) }), trees.claimRoots()
    else { return nil }
    memory.keep(pages.mapping, byteCount: mapped * HashIndex.bucketBytes)
    nodes.adopt(trees.base, count: bucketCount)
    count = Int(clamping: trees.header.treeEntryCount)
    for tree in trees.header.trees where tree.entryCount > 0 {
      setRoot(
        tree.keyspace,
        TreeRoot(
          node: Int(tree.root), height: Int(tree.height), count: Int(clamping: tree.entryCount),
          hasPage: true))
    }
    loaded = trees
    scratch.isTrusted = false
    // The copies of the last nodes may have taken the memory that was taken ahead.
    isShort = true
  }

  /// Whether some nodes may not have been validated.
  var hasUnvalidatedPages: Bool { loaded != nil }

  /// Validates the nodes that a look-up of a key reads.
  ///
  /// - Parameter neighbours: whether to validate the nodes beside them too, which a change may
  ///   need.
  /// - Returns: false when a node is not what was written: the index must be made from the log.
  func validate(_ key: TreeKey, in keyspace: UInt16, neighbours: Bool) -> Bool {
    guard loaded != nil, root(keyspace).hasPage else { return true }
    return validatedPath(of: key, root(keyspace), neighbours: neighbours) != nil
  }

  /// Validates the nodes from a root to the leaf of a key.
  ///
  /// - Returns: the path; nil when a node is not what was written.
  func validatedPath(of key: TreeKey, _ root: TreeRoot, neighbours: Bool) -> TreePath? {
    validatedPath(root, neighbours: neighbours) { $0.index(of: key) }
  }

  /// Validates the nodes from a root to a leaf.
  ///
  /// - Parameter choose: returns the index of the child that the path follows.
  /// - Returns: nil when a node is not what was written.
  private func validatedPath(
    _ root: TreeRoot, neighbours: Bool = false, _ choose: (TreeBranch) -> Int
  ) -> TreePath? {
    guard let loaded else { return nil }
    var (path, node, bounds) = (TreePath(), root.node, CheckpointTrees.Bounds())
    guard loaded.validate(node, page(node), level: root.height, count: root.count, bounds) else {
      return nil
    }
    for level in stride(from: root.height, to: 0, by: -1) {
      let branch = TreeBranch(page(node))
      let index = choose(branch)
      let (first, last) =
        neighbours ? (max(0, index - 1), min(branch.childCount - 1, index + 1)) : (index, index)
      for other in first...last {
        let child = branch.child(other)
        if loaded.isValidated(child) { continue }
        guard
          loaded.validate(
            child, page(child), level: level - 1, count: branch.count(other),
            branch.bounds(other, within: bounds))
        else { return nil }
      }
      if level > 1 { bounds = branch.bounds(index, within: bounds) }
      path.append(node, index)
      node = branch.child(index)
    }
    path.leaf = node
    return path
  }

  /// Validates the nodes that a walk over some entries of a range reads.
  ///
  /// - Parameter limit: how many entries the walk reads at most.
  /// - Returns: as ``validate(_:in:neighbours:)``.
  func validate(
    _ range: KeyRange, _ order: KeyOrder, limit: Int, in keyspace: UInt16
  ) -> Bool {
    let root = root(keyspace)
    guard loaded != nil, root.hasPage else { return true }
    func path(_ bound: Key?, isEnd: Bool) -> TreePath? {
      guard let bound else {
        return validatedPath(root) { isEnd ? $0.childCount - 1 : 0 }
      }
      return bound.bytes.withBytes { bytes in
        validatedPath(root) { $0.index(of: TreeKey(bytes)) }
      }
    }
    guard let start = path(range.lowerBound, isEnd: false),
      let end = path(range.upperBound, isEnd: true)
    else { return false }
    let isForward = order == .ascending
    var path = isForward ? start : end
    let last = isForward ? end.leaf : start.leaf
    var left = limit
    while left > 0, path.leaf != last {
      guard let next = neighbour(of: path, isForward: isForward) else { return true }
      guard next.isSound else { return false }
      path = next.path
      left -= leaf(path.leaf).count
    }
    return true
  }

  /// Returns the path to the leaf beside that of a path, and whether its nodes are sound; nil when
  /// there is none.
  private func neighbour(
    of path: TreePath, isForward: Bool
  ) -> (path: TreePath, isSound: Bool)? {
    var above = path
    while above.depth > 0 {
      let (node, index) = above.removeLast()
      let next = isForward ? index + 1 : index - 1
      guard next >= 0, next < TreeBranch(page(node)).childCount else { continue }
      // The path from the root again, with the child beside the former one at this level.
      let turn = above.depth
      var level = 0
      let root = TreeRoot(
        node: path.node(0), height: path.depth, count: TreeBranch(page(path.node(0))).total,
        hasPage: true)
      let found = validatedPath(root) { branch in
        defer { level += 1 }
        if level < turn { return path.index(level) }
        if level == turn { return next }
        return isForward ? 0 : branch.childCount - 1
      }
      return (found ?? path, found != nil)
    }
    return nil
  }

  /// Validates the next nodes that were not validated yet.
  ///
  /// - Returns: as ``validate(_:in:neighbours:)``.
  mutating func validateNextPages(_ limit: Int = 128) -> Bool {
    guard let loaded else { return true }
    switch loaded.validateNext(limit, page: { page($0) }) {
    case nil: return false
    case true?: return true
    case false?:
      self.loaded = nil
      return true
    }
  }

  /// Validates all nodes.
  ///
  /// - Complexity: O(nodes), the first time.
  mutating func validateAllPages() -> Bool { validateNextPages(.max) }
}

extension TreeIndex {
  /// Writes the trees, as they are now, into the header of a checkpoint.
  ///
  /// - Complexity: O(branches).
  func describe(in header: inout CheckpointHeader) {
    var next = 0
    header.trees = ordered.numbers.map { keyspace in
      let root = root(keyspace)
      var tree = CheckpointHeader.Tree(keyspace: keyspace)
      guard root.hasPage else { return tree }
      tree.height = UInt8(root.height)
      tree.entryCount = UInt64(root.count)
      tree.root = UInt32(next)
      next += 1
      return tree
    }
    let nodeCount = allRoots.values.reduce(0) { $0 + self.nodeCount($1.node, $1.height) }
    assert(nodeCount == pageCount, "a page belongs to no tree and is not free")
    header.nodeCount = UInt32(nodeCount)
  }

  /// Returns the number of nodes of a tree.
  private func nodeCount(_ node: Int, _ height: Int) -> Int {
    guard height > 0 else { return 1 }
    let branch = TreeBranch(page(node))
    if height == 1 { return 1 + branch.childCount }
    return (0..<branch.childCount).reduce(1) { $0 + nodeCount(branch.child($1), height - 1) }
  }

  /// Removes every entry whose segment slot is in `slots`. All nodes were validated before. Leaves
  /// may stay nearly empty: the log has the records of most of these keys in other segments.
  ///
  /// - Complexity: O(entries).
  mutating func removeAll(in slots: Set<Int>) {
    precondition(!hasUnvalidatedPages, "entries are removed from unvalidated pages")
    precondition(!isFrozen, "entries are removed from pages that a snapshot has")
    for (keyspace, old) in allRoots {
      var root = old
      root.count = removeAll(in: slots, from: root.node, height: root.height)
      count -= old.count - root.count
      if root.count == 0 {
        free(root.node)
        root = TreeRoot()
      }
      while root.height > 0, TreeBranch(page(root.node)).childCount == 1 {
        free(root.node)
        root.node = TreeBranch(page(root.node)).child(0)
        root.height -= 1
      }
      setRoot(keyspace, root)
    }
    returnFreePages()
  }

  /// - Returns: the number of entries that are left below the node.
  private mutating func removeAll(in slots: Set<Int>, from node: Int, height: Int) -> Int {
    guard height > 0 else {
      let leaf = leaf(node)
      for position in (0..<leaf.count).reversed()
      where slots.contains(leaf.address(position).slot) {
        leaf.remove(position)
      }
      return leaf.count
    }
    let branch = TreeBranch(page(node))
    var contents = branch.contents
    for index in contents.children.indices.reversed() {
      let child = contents.children[index]
      contents.counts[index] = removeAll(in: slots, from: child, height: height - 1)
      guard contents.counts[index] == 0 else { continue }
      free(child)
      contents.children.remove(at: index)
      contents.counts.remove(at: index)
      if !contents.separators.isEmpty { contents.separators.remove(at: max(0, index - 1)) }
    }
    let left = contents.children.indices
    if !left.isEmpty { branch.write(contents, 0..<left.count, level: height) }
    return contents.total
  }
}

extension FrozenTrees {
  /// Returns the roots of the trees that have entries, in the order of the header's trees.
  func roots(of header: CheckpointHeader) -> [UInt32] {
    header.trees.filter { $0.entryCount > 0 }.map { UInt32(root($0.keyspace).node) }
  }

  /// Copies a node as a checkpoint has it: its children are numbered in the order in which they are
  /// written, level by level.
  ///
  /// - Parameter queue: the nodes by their numbers in the checkpoint; gets the node's children.
  func copy(_ node: Int, to target: UnsafeMutableRawPointer, _ queue: inout [UInt32]) {
    target.copyMemory(from: page(node), byteCount: TreeLeaf.pageBytes)
    let branch = TreeBranch(target.assumingMemoryBound(to: UInt64.self))
    guard branch.level > 0 else { return }
    for index in 0..<branch.childCount {
      let child = branch.child(index)
      branch.setChild(index, queue.count)
      queue.append(UInt32(child))
    }
  }
}

extension TreeLeaf {
  /// Whether the page is a leaf with this number of entries whose fields agree with each other.
  func isSound(count expected: Int) -> Bool {
    guard level == 0, count == expected, count > 0, flagsAreKnown,
      prefixLength <= Self.prefixLimit, count <= capacity, isOrdered
    else { return false }
    // Keys with equal heads share the head, and need the bytes for tied keys.
    return (1..<max(1, count)).allSatisfy { position in
      heads[position] != heads[position - 1]
        || (isTied && shared[position] >= UInt8(Self.headBytes))
    }
  }
}

extension TreeLeaf {
  /// Whether an entry says what its key shares with the key before it. The place of a new key
  /// follows from that, where keys are tied.
  func describes(_ key: Key, after last: Key, _ position: Int) -> Bool {
    guard position > 0, heads[position] == heads[position - 1] else { return true }
    let common = key.bytes.withBytes { key in
      last.bytes.withBytes { TreeKey(key).shared(with: TreeKey($0)) }
    }
    guard isTied, let common, common - prefixLength < Int(Self.longShared) else {
      return isTied && shared[position] == Self.longShared
    }
    return Int(shared[position]) == common - prefixLength
      && bytes[position] == (common < key.bytes.count ? key.bytes[common] : 0)
  }
}

extension TreeBranch {
  /// Whether the page is a branch at this level, with this number of entries below it, whose fields
  /// agree with each other, and whose separators rise between the bounds.
  func isSound(level expectedLevel: Int, count: Int, _ bounds: CheckpointTrees.Bounds) -> Bool {
    guard childCount > 0, level == expectedLevel, hasFieldsInPage else { return false }
    guard (0..<childCount).reduce(0, { $0 + self.count($1) }) == count,
      (0..<childCount).allSatisfy({ self.count($0) > 0 })
    else { return false }
    var last = bounds.lower
    for index in 0..<childCount - 1 {
      let next = separator(index)
      guard next.count <= Self.separatorLimit, hasHead(index) else { return false }
      if let last, !Self.precedes(last, next) { return false }
      last = next
    }
    guard let last, let upper = bounds.upper else { return true }
    return Self.precedes(last, upper)
  }

  private static func precedes(_ one: [UInt8], _ other: [UInt8]) -> Bool {
    one.withBytes { one in other.withBytes { TreeKey(one).precedes(TreeKey($0)) } }
  }

  /// Returns the bounds of a child.
  func bounds(
    _ index: Int, within bounds: CheckpointTrees.Bounds
  ) -> CheckpointTrees.Bounds {
    // Bounds of leaves are not used.
    if level == 1 { return CheckpointTrees.Bounds() }
    return CheckpointTrees.Bounds(
      lower: index > 0 ? separator(index - 1) : bounds.lower,
      upper: index < childCount - 1 ? separator(index) : bounds.upper)
  }
}
