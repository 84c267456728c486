// Full leaves whose keys their heads distinguish. Their entries are moved as they lie, without
// being taken apart as ``TreeEntries`` does it for all other leaves.
extension TreeIndex {
  /// Inserts a key into a full leaf: gives entries to a neighbour, or divides the leaf.
  ///
  /// - Returns: false when the general way must do it. Nothing has changed then.
  mutating func insertIntoFull(
    _ key: TreeKey, _ address: Address, _ place: LeafPlace, _ path: TreePath, _ root: inout TreeRoot
  ) -> Bool {
    let own = leaf(path.leaf)
    guard own.count >= Self.smallestDirectly, !own.isTied, own.accepts(key, place) else {
      return false
    }
    if path.depth > 0 {
      let branch = TreeBranch(page(path.node(path.depth - 1)))
      let index = path.index(path.depth - 1)
      for other in [index + 1, index - 1] where other >= 0 && other < branch.childCount {
        let neighbour = leaf(branch.child(other))
        let moved = (own.count + 1 - neighbour.count) / 2
        guard moved > (own.count + 1) / 8 else { continue }
        return give(moved, to: other, key, address, place, path)
      }
    }
    divide(key, address, place, path, &root)
    return true
  }

  /// The fewest entries of a leaf whose entries are moved as they lie.
  private static let smallestDirectly = 4

  /// Moves entries to a neighbour below the same branch, and inserts the key.
  ///
  /// - Returns: false when the entries of both leaves have no common form, or the branch has no
  ///   room for the separator.
  private mutating func give(
    _ wish: Int, to other: Int, _ key: TreeKey, _ address: Address, _ place: LeafPlace,
    _ path: TreePath
  ) -> Bool {
    let (node, index) = (path.node(path.depth - 1), path.index(path.depth - 1))
    let isAfter = other > index
    let target = TreeBranch(page(node)).child(other)
    let (own, neighbour) = (leaf(path.leaf), leaf(target))
    // The key must not come to lie beside the new separator, which the entries alone decide.
    let isAtBoundary = place.position == (isAfter ? own.count - wish : wish)
    let moved = isAtBoundary ? wish - 1 : wish
    guard moved > 0, neighbour.count + moved < min(neighbour.capacity, leafLimit),
      neighbour.isNeighbour(of: own, isAfter: isAfter, with: key, place)
    else { return false }
    let boundary = isAfter ? own.count - moved : moved
    guard let separator = own.separatorByHeads(before: boundary),
      TreeBranch(page(node)).hasRoom(for: separator, at: min(index, other))
    else { return false }
    makeUnique(target)
    makeUnique(node)
    let (giver, taker) = (leaf(path.leaf), leaf(target))
    let takerCount = taker.count
    if isAfter { giver.moveLast(moved, to: taker) } else { giver.moveFirst(moved, to: taker) }
    var place = place
    let goesOver = isAfter == (place.position > boundary)
    if isAfter, goesOver { place.position -= boundary }
    if !isAfter { place.position += goesOver ? takerCount : -boundary }
    (goesOver ? taker : giver).insert(key, address, place)
    let branch = TreeBranch(page(node))
    branch.addToCount(index, goesOver ? -moved : 1 - moved)
    branch.addToCount(other, goesOver ? moved + 1 : moved)
    branch.setSeparator(min(index, other), separator)
    var above = path
    _ = above.removeLast()
    addToCounts(above, 1)
    return true
  }

  /// Moves half of the entries to a new leaf, and inserts the key.
  private mutating func divide(
    _ key: TreeKey, _ address: Address, _ place: LeafPlace, _ path: TreePath, _ root: inout TreeRoot
  ) {
    let node = allocate()
    let (own, new) = (leaf(path.leaf), leaf(node))
    let middle = own.count / 2
    // As above, the key must not come to lie beside the separator.
    let boundary = place.position == middle ? middle + 1 : middle
    guard let separator = own.separatorByHeads(before: boundary) else {
      preconditionFailure("a leaf without tied keys has two equal heads")
    }
    new.clear()
    new.prefixLength = own.prefixLength
    new.prefix.copyMemory(from: UnsafeRawBufferPointer(own.prefix))
    own.moveLast(own.count - boundary, to: new)
    var place = place
    let goesOver = place.position > boundary
    if goesOver { place.position -= boundary }
    (goesOver ? new : own).insert(key, address, place)
    replaceChild(
      path,
      by: [
        Child(node: path.leaf, count: own.count, separator: []),
        Child(node: node, count: new.count, separator: separator),
      ], &root)
  }
}

extension TreeLeaf {
  /// Whether entries can move between this leaf and one beside it as they lie: the heads of both
  /// follow the same prefix, and distinguish all keys.
  ///
  /// - Parameters:
  ///   - isAfter: whether this leaf comes after the other one.
  ///   - key: a key that is about to be inserted into the other one.
  fileprivate func isNeighbour(
    of other: TreeLeaf, isAfter: Bool, with key: TreeKey, _ place: LeafPlace
  ) -> Bool {
    guard !isTied, count > 0, prefixLength == other.prefixLength, prefix.elementsEqual(other.prefix)
    else { return false }
    let head = key.head(after: prefixLength)
    if isAfter {
      let last = place.position == other.count ? head : other.heads[other.count - 1]
      return last < heads[0]
    }
    let first = place.position == 0 ? head : other.heads[0]
    return heads[count - 1] < first
  }

  /// Returns a separator before an entry, as ``TreeEntries/separator(before:)`` does; nil when its
  /// head and the one before it are not in order, which only a forged leaf has.
  fileprivate func separatorByHeads(before position: Int) -> [UInt8]? {
    assert(position > 0 && position < count, "no separator is before the first entry")
    let (last, head) = (heads[position - 1], heads[position])
    guard last < head else { return nil }
    let length = (last ^ head).leadingZeroBitCount / 8 + 1
    return [UInt8](prefix)
      + (0..<length).map { UInt8(truncatingIfNeeded: head >> UInt32(24 - 8 * $0)) }
  }

  /// Moves the last entries to the beginning of a leaf with the same prefix, which has room.
  fileprivate func moveLast(_ moved: Int, to other: TreeLeaf) {
    let (kept, taken) = (count - moved, other.count)
    assert(kept >= 0 && taken + moved <= other.capacity, "entries move to a full leaf")
    assert(!isTied && !other.isTied, "tied keys are moved without their bytes")
    (other.heads + moved).update(from: other.heads, count: taken)
    other.heads.update(from: heads + kept, count: moved)
    let start = other.addresses
    (start + moved * Self.addressBytes)
      .copyMemory(from: start, byteCount: taken * Self.addressBytes)
    start.copyMemory(from: addressPlace(kept), byteCount: moved * Self.addressBytes)
    (count, other.count) = (kept, taken + moved)
    (appendedCount, other.appendedCount) = (0, 0)
    other.renewSamples(from: 0)
  }

  /// Moves the first entries to the end of a leaf with the same prefix, which has room.
  fileprivate func moveFirst(_ moved: Int, to other: TreeLeaf) {
    let (kept, taken) = (count - moved, other.count)
    assert(kept >= 0 && taken + moved <= other.capacity, "entries move to a full leaf")
    assert(!isTied && !other.isTied, "tied keys are moved without their bytes")
    (other.heads + taken).update(from: heads, count: moved)
    heads.update(from: heads + moved, count: kept)
    let start = addresses
    (other.addresses + taken * Self.addressBytes)
      .copyMemory(from: start, byteCount: moved * Self.addressBytes)
    start.copyMemory(from: start + moved * Self.addressBytes, byteCount: kept * Self.addressBytes)
    (count, other.count) = (kept, taken + moved)
    (appendedCount, other.appendedCount) = (0, 0)
    other.renewSamples(from: taken)
    renewSamples(from: 0)
  }
}
