// Leaves and branches that are full or nearly empty.
extension TreeIndex {
  func isNearlyEmpty(_ leaf: TreeLeaf) -> Bool {
    leaf.count < min(leaf.capacity, leafLimit) / 4 || leaf.count == 0
  }

  /// A child that takes the place of another one, and the separator before it.
  struct Child {
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
  mutating func replaceChild(
    _ path: TreePath, by children: [Child], _ root: inout TreeRoot
  ) {
    var path = path
    var children = children
    while path.depth > 0 {
      let (node, index) = path.removeLast()
      makeUnique(node)
      let difference = children.reduce(-TreeBranch(page(node)).count(index)) { $0 + $1.count }
      children = replaceChild(index, of: node, by: children)
      if children.isEmpty {
        addToCounts(path, difference)
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

  /// Replaces a child of a branch by several children.
  ///
  /// - Returns: the branches that take the place of the branch; empty when it has room.
  private mutating func replaceChild(
    _ index: Int, of node: Int, by children: [Child]
  ) -> [Child] {
    let branch = TreeBranch(page(node))
    branch.setChild(index, children[0].node)
    branch.addToCount(index, children[0].count - branch.count(index))
    var next = index + 1
    for (place, child) in children.enumerated().dropFirst() {
      if branch.childCount < branchLimit,
        branch.insert(child.node, count: child.count, child.separator, after: next - 1)
      {
        next += 1
        continue
      }
      let isAppended = next == branch.childCount
      var contents = branch.contents
      let rest = children[place...]
      contents.children.insert(contentsOf: rest.map(\.node), at: next)
      contents.counts.insert(contentsOf: rest.map(\.count), at: next)
      contents.separators.insert(contentsOf: rest.map(\.separator), at: next - 1)
      let written = write(contents, to: node, level: branch.level, isAppended: isAppended)
      return written.count == 1 ? [] : written
    }
    return []
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
    guard TreeBranch(page(node)).hasRoom(for: separator, at: min(index, other)) else {
      return false
    }
    makeUnique(target)
    makeUnique(node)
    joined.write(0..<joined.count, to: leaf(target))
    scratch.write(kept, to: leaf(path.leaf))
    let branch = TreeBranch(page(node))
    let difference = kept.count + joined.count - branch.count(index) - branch.count(other)
    branch.addToCount(index, kept.count - branch.count(index))
    branch.addToCount(other, joined.count - branch.count(other))
    branch.setSeparator(min(index, other), separator)
    addToCounts(above, difference)
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
