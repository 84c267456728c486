/// A change of one key by a batch.
struct TreeEdit {
  let key: TreeKey
  let place: TreePlace
  /// The address of the key's new record; nil when the key is removed.
  let address: Address?
}

extension TreeIndex {
  /// Applies the changes of a batch. Reads no record, except for steps that can be left out: the
  /// batch is in the log already.
  ///
  /// - Parameter edits: one for each key, in the order of the keys. Their places were found in the
  ///   tree as it is now.
  /// - Returns: false when the places are not in that order, which a forged checkpoint can cause:
  ///   the index must be made from the log.
  mutating func apply<Source: TreeKeySource & ~Copyable>(
    _ edits: [TreeEdit], in keyspace: UInt16, _ source: borrowing Source
  ) -> Bool {
    guard !edits.isEmpty else { return true }
    guard scratch.isTrusted || haveRisingPlaces(edits) else { return false }
    var root = rootWithPage(keyspace)
    // From the last leaf to the first: no change affects the places in the leaves before it.
    var end = edits.count
    var shrunken: [TreeKey] = []
    while end > 0 {
      let group = edits[end - 1].place.path.leaf
      var first = end - 1
      while first > 0, edits[first - 1].place.path.leaf == group { first -= 1 }
      guard scratch.isTrusted || leads(to: edits[first], root) else {
        setRoot(keyspace, root)
        return false
      }
      if apply(edits[first..<end], &root, source) { shrunken.append(edits[first].key) }
      end = first
    }
    if root.count == 0, root.hasPage {
      releasePages(root.node, height: root.height)
      root = TreeRoot()
    }
    for key in shrunken where root.hasPage {
      // Merges of branches may have brought other neighbours.
      guard loaded == nil || validatedPath(of: key, root, neighbours: true) != nil else {
        setRoot(keyspace, root)
        return false
      }
      let path = path(of: key, root)
      if isNearlyEmpty(leaf(path.leaf)) { shrink(path, &root, source) }
    }
    if !shrunken.isEmpty { returnFreePages() }
    setRoot(keyspace, root)
    return true
  }

  /// Whether the key of a change leads to the leaf of its place, also after changes of later
  /// leaves.
  private func leads(to edit: TreeEdit, _ root: TreeRoot) -> Bool {
    if edit.place.path.depth == 0 { return root.height == 0 }
    if loaded != nil {
      return validatedPath(of: edit.key, root, neighbours: true)?.leaf == edit.place.path.leaf
    }
    return path(of: edit.key, root).leaf == edit.place.path.leaf
  }

  /// Whether the changes of each leaf lie together, with rising positions.
  private func haveRisingPlaces(_ edits: [TreeEdit]) -> Bool {
    var leaves: Set<Int> = []
    for (index, edit) in edits.enumerated() {
      let before = index > 0 ? edits[index - 1].place : nil
      guard let before, before.path.leaf == edit.place.path.leaf else {
        guard leaves.insert(edit.place.path.leaf).inserted else { return false }
        continue
      }
      let (one, other) = (before.place.position, edit.place.place.position)
      guard before.existing == nil ? one <= other : one < other else { return false }
    }
    return true
  }

  /// Applies the changes of the keys of one leaf.
  ///
  /// - Returns: whether keys were removed.
  private mutating func apply<Source: TreeKeySource & ~Copyable>(
    _ edits: ArraySlice<TreeEdit>, _ root: inout TreeRoot, _ source: borrowing Source
  ) -> Bool {
    // Changes of later leaves may have split the branches above.
    var path = path(of: edits[edits.startIndex].key, root)
    if path.depth == 0 { path.leaf = root.node }
    makeUnique(path.leaf)
    let leaf = leaf(path.leaf)
    if edits.allSatisfy({ $0.place.existing != nil && $0.address != nil }) {
      for edit in edits {
        guard let address = edit.address else { continue }
        leaf.setAddress(edit.place.place.position, address)
      }
      return false
    }
    let before = leaf.count
    let change = edits.reduce(0) { $0 + $1.countChange }
    let hasRemovals = edits.contains(where: \.removes)
    if edits.count <= Self.editsInPlace, accepts(edits, leaf) {
      leaf.apply(edits)
      addToCounts(path, change)
    } else {
      let isAppended = edits.allSatisfy { $0.place.place.position == before }
      scratch.removeAll()
      scratch.append(leaf, applying: edits)
      writeScratch(
        over: path, &root, isAppended: isAppended,
        appendedCount: isAppended ? leaf.appendedCount + edits.count : 0, mayGive: false, source)
    }
    root.count += change
    count += change
    return hasRemovals
  }

  /// The most changes of a leaf that are made one after the other. A save of a model with indexes
  /// makes one or two in a leaf; a larger number was not measured.
  private static var editsInPlace: Int { 4 }

  /// Whether a leaf can take changes one after the other, without being written again.
  private func accepts(_ edits: ArraySlice<TreeEdit>, _ leaf: TreeLeaf) -> Bool {
    let inserted = edits.count(where: \.inserts)
    let removed = edits.count(where: \.removes)
    guard removed < leaf.count else { return false }
    let room = min(leaf.capacity, leafLimit) - leaf.count
    return leaf.isTied
      ? inserted <= room && leaf.acceptsTied(edits)
      : inserted - removed <= room && leaf.acceptsUntied(edits)
  }
}

extension TreeEdit {
  fileprivate var inserts: Bool { place.existing == nil && address != nil }
  fileprivate var removes: Bool { place.existing != nil && address == nil }
  /// What the change adds to the number of keys.
  fileprivate var countChange: Int { inserts ? 1 : removes ? -1 : 0 }
}

extension TreeLeaf {
  fileprivate func acceptsTied(_ edits: ArraySlice<TreeEdit>) -> Bool {
    var last = -1
    for edit in edits where edit.inserts {
      let place = edit.place.place
      // What two keys between the same neighbours share with each other was not compared.
      guard place.position != last, accepts(edit.key, place) else { return false }
      last = place.position
    }
    return true
  }

  /// Without bytes for tied keys, the leaf accepts keys whose heads differ from those of the
  /// neighbours that they will have.
  fileprivate func acceptsUntied(_ edits: ArraySlice<TreeEdit>) -> Bool {
    func isRemoved(_ position: Int) -> Bool {
      edits.contains { $0.removes && $0.place.place.position == position }
    }
    var last: (position: Int, head: UInt32)?
    for edit in edits where edit.inserts {
      let position = edit.place.place.position
      let prefix = UnsafeRawBufferPointer(prefix)
      guard prefix.isEmpty || edit.key.compare(prefix: prefix).order == 0 else { return false }
      let head = edit.key.head(after: prefixLength)
      var (before, after) = (position - 1, position)
      while before >= 0, isRemoved(before) { before -= 1 }
      while after < count, isRemoved(after) { after += 1 }
      if let last, last.position > before {
        guard last.head != head else { return false }
      } else if before >= 0, heads[before] == head {
        return false
      }
      if after < count, heads[after] == head { return false }
      last = (position, head)
    }
    return true
  }

  /// Applies changes that the leaf accepts.
  fileprivate func apply(_ edits: ArraySlice<TreeEdit>) {
    isTied ? applyTied(edits) : applyUntied(edits)
  }

  private func applyTied(_ edits: ArraySlice<TreeEdit>) {
    // All insertions come first: what a key shares with its neighbours was found while they were
    // there. From the last one to the first, so that the positions of the others stay.
    var earlier = 0
    for edit in edits.reversed() where edit.inserts {
      guard let address = edit.address else { continue }
      insert(edit.key, address, edit.place.place)
      earlier += 1
    }
    for edit in edits.reversed() {
      if edit.inserts {
        earlier -= 1
        continue
      }
      changeExisting(edit, at: edit.place.place.position + earlier)
    }
  }

  private func applyUntied(_ edits: ArraySlice<TreeEdit>) {
    // All removals come first: a key may be tied with one that is removed.
    for edit in edits.reversed() where !edit.inserts {
      changeExisting(edit, at: edit.place.place.position)
    }
    var change = 0
    for edit in edits {
      if edit.inserts, let address = edit.address {
        var place = edit.place.place
        place.position += change
        insert(edit.key, address, place)
      }
      change += edit.countChange
    }
  }

  private func changeExisting(_ edit: TreeEdit, at position: Int) {
    if edit.removes {
      remove(position)
    } else if edit.place.existing != nil, let address = edit.address {
      setAddress(position, address)
    }
  }
}

extension TreeEntries {
  /// Appends the entries of a leaf as the changes of a batch leave them.
  mutating func append(_ leaf: TreeLeaf, applying edits: ArraySlice<TreeEdit>) {
    addPrefix(leaf)
    var next = 0
    /// What the entry at `next` shares with the last one here, when that is not its neighbour.
    var relation: (shared: Int, byte: UInt8)?
    /// What the entry before `next` shares with the last one here, when it was removed.
    var removed: Int?
    for edit in edits {
      let (place, position) = (edit.place.place, edit.place.place.position)
      if next < position {
        append(leaf, next..<position, relation)
        (next, relation, removed) = (position, nil, nil)
      }
      if edit.place.existing != nil {
        let own =
          relation
          ?? (position == 0
            ? (0, 0)
            : (
              leaf.sharedLength(before: position),
              leaf.distinguishingByte(position)
            ))
        next = position + 1
        if let address = edit.address {
          append(leaf, position..<next, own)
          setAddress(count - 1, address)
          (relation, removed) = (nil, nil)
        } else {
          removed = own.0
          guard next < leaf.count else { continue }
          let after = leaf.sharedLength(before: next)
          let isAfter = after <= own.0 || Self.isLong(own.0, in: leaf)
          relation = isAfter ? (after, leaf.distinguishingByte(next)) : own
        }
      } else if let address = edit.address {
        append(edit.key, address, shared: shared(edit.key, place, removed, leaf))
        (relation, removed) = ((place.sharedAfter, place.byteAfter), nil)
      }
    }
    append(leaf, next..<leaf.count, relation)
  }

  private mutating func append(
    _ leaf: TreeLeaf, _ range: Range<Int>, _ relation: (shared: Int, byte: UInt8)?
  ) {
    guard !range.isEmpty else { return }
    let first = count
    append(leaf, range)
    if let relation { setShared(first, relation.shared, relation.byte) }
  }

  /// Returns what an inserted key shares with the last entry.
  private func shared(
    _ key: TreeKey, _ place: LeafPlace, _ removed: Int?, _ leaf: TreeLeaf
  ) -> Int {
    guard let last = entries.last else { return 0 }
    if let other = last.key { return sharedWithInserted(other, key) }
    guard let removed else { return place.sharedBefore }
    return removed == .max && Self.isLong(place.sharedBefore, in: leaf)
      ? .max : min(place.sharedBefore, removed)
  }

  /// Whether the leaf cannot say a shared length: then the least of it and of another one that the
  /// leaf cannot say is not known either.
  private static func isLong(_ shared: Int, in leaf: TreeLeaf) -> Bool {
    shared == .max || shared - leaf.prefixLength >= Int(TreeLeaf.longShared)
  }
}
