import MoraineStorage

/// A source of keys: it reads the record at an address, verifies its checksum, and returns its key.
protocol TreeKeySource: ~Copyable {
  /// - Returns: the key; valid until the next call.
  func key(at address: Address) throws(StoreError) -> UnsafeRawBufferPointer

  /// Whether reading the key costs little: for work that can be left out.
  func isCheapToRead(_ address: Address) -> Bool

  /// Begins to fetch the record at an address to the processor's cache; a hint.
  func prefetch(_ address: Address)
}

/// The numbers of the keyspaces whose index is a tree.
struct OrderedKeyspaces: Equatable {
  private var words: [UInt64] = []

  init(_ numbers: [UInt16] = []) {
    for number in numbers { insert(number) }
  }

  var isEmpty: Bool { words.isEmpty }

  @inline(__always)
  func contains(_ keyspace: UInt16) -> Bool {
    let word = Int(keyspace &>> 6)
    return word < words.count && words[word] & 1 &<< UInt64(keyspace & 63) != 0
  }

  mutating func insert(_ keyspace: UInt16) {
    let word = Int(keyspace >> 6)
    if word >= words.count {
      words.append(contentsOf: repeatElement(0, count: word + 1 - words.count))
    }
    words[word] |= 1 << UInt64(keyspace & 63)
  }

  /// The numbers, ascending.
  var numbers: [UInt16] {
    words.indices.flatMap { word in
      (0..<64).filter { words[word] & 1 << UInt64($0) != 0 }.map { UInt16(word * 64 + $0) }
    }
  }
}

/// The pages of a tree, live or of a snapshot.
protocol TreePages: ~Copyable {
  func page(_ node: Int) -> UnsafeMutablePointer<UInt64>
}

/// The root of the tree of one keyspace.
struct TreeRoot: Equatable {
  /// The number of the root's page; meaningless while the tree is empty.
  var node = 0
  /// The number of levels above the leaves.
  var height = 0
  /// The number of entries.
  var count = 0
  /// Whether the tree has a page.
  var hasPage = false
}

/// The nodes from the root to a leaf, and in each the index of the child that the path follows.
struct TreePath {
  /// The most levels above the leaves. A branch has at least four children where keys have the
  /// longest length, so no log has as many keys as a tree of this height.
  static let limit = 16

  private var nodes = SIMD16<UInt32>()
  private var indices = SIMD16<UInt16>()
  private(set) var depth = 0
  var leaf = 0

  @inline(__always)
  mutating func append(_ node: Int, _ index: Int) {
    precondition(depth < Self.limit, "a tree is higher than any log allows")
    nodes[depth] = UInt32(truncatingIfNeeded: node)
    indices[depth] = UInt16(truncatingIfNeeded: index)
    depth &+= 1
  }

  func node(_ level: Int) -> Int { Int(nodes[level]) }
  func index(_ level: Int) -> Int { Int(indices[level]) }
  mutating func setIndex(_ level: Int, _ index: Int) {
    indices[level] = UInt16(truncatingIfNeeded: index)
  }
  mutating func removeLast() -> (node: Int, index: Int) {
    depth &-= 1
    return (Int(nodes[depth]), Int(indices[depth]))
  }
}

/// The place of a key in a leaf, and what the key shares with the keys beside it.
struct LeafPlace {
  /// The entry of the key, or the entry before which it would be inserted.
  var position: Int
  /// Whether the leaf has the key.
  var isMatch = false
  /// The number of bytes shared with the key before the position; `Int.max` when the keys differ
  /// only in zeros at their ends. Meaningless at position 0.
  var sharedBefore = 0
  /// The same for the key at the position, and that key's first byte after them. Meaningless at the
  /// end of the leaf.
  var sharedAfter = 0
  var byteAfter: UInt8 = 0
}

extension TreePages where Self: ~Copyable {
  /// Returns the leaf to which a key belongs.
  @inline(__always)
  func leaf(of key: TreeKey, _ root: TreeRoot) -> Int {
    var node = root.node
    var level = root.height
    while level > 0 {
      let branch = TreeBranch(page(node))
      node = branch.child(branch.index(of: key))
      level &-= 1
      if level == 0 { TreeLeaf.prefetch(page(node)) }
    }
    return node
  }

  /// Returns the path to the leaf to which a key belongs.
  @inline(__always)
  func path(of key: TreeKey, _ root: TreeRoot) -> TreePath {
    var path = TreePath()
    var node = root.node
    for _ in 0..<root.height {
      let branch = TreeBranch(page(node))
      let index = branch.index(of: key)
      path.append(node, index)
      node = branch.child(index)
    }
    TreeLeaf.prefetch(page(node))
    path.leaf = node
    return path
  }

  /// Returns the address of the record that may have a key; nil when no record has it. The caller
  /// compares the key.
  @inline(__always)
  func candidate(_ key: TreeKey, _ root: TreeRoot) -> (node: Int, position: Int, range: Range<Int>)?
  {
    guard root.hasPage else { return nil }
    let node = leaf(of: key, root)
    let leaf = TreeLeaf(page(node))
    guard let range = leaf.tied(key) else { return nil }
    return (node, range.count == 1 ? range.lowerBound : leaf.blindSearch(key, range), range)
  }

  /// Whether a tree has an entry for exactly this record of a key. Reads no record.
  func holds(_ address: Address, _ key: TreeKey, _ root: TreeRoot) -> Bool {
    place(of: address, key, root) != nil
  }

  /// Returns the entry of exactly this record of a key. Reads no record.
  func place(
    of address: Address, _ key: TreeKey, _ root: TreeRoot
  ) -> (node: Int, position: Int)? {
    guard root.hasPage else { return nil }
    let node = leaf(of: key, root)
    let leaf = TreeLeaf(page(node))
    guard let range = leaf.tied(key) else { return nil }
    for position in range where leaf.address(position) == address { return (node, position) }
    return nil
  }
}

extension TreeLeaf {
  /// Number of records that a search fetches for a caller that reads on.
  private static var followingCount: Int { 4 }

  /// Returns the entries whose heads are equal to that of a key; nil when there are none.
  @inline(__always)
  func tied(_ key: TreeKey) -> Range<Int>? {
    let length = prefixLength
    if length > 0, key.compare(prefix: UnsafeRawBufferPointer(prefix)).order != 0 { return nil }
    let head = key.head(after: length)
    let first = lowerBound(head)
    let (count, heads) = (count, heads)
    guard first < count, heads[first] == head else { return nil }
    var end = first &+ 1
    while end < count, heads[end] == head { end &+= 1 }
    return first..<end
  }

  /// Returns the one entry, among those with the head of a key, that can have the key. It shares as
  /// many bytes with the key as any entry does. Reads no record.
  ///
  /// The shared lengths of neighbours describe a trie: the search follows the branches whose byte
  /// the key has, and does not look at the bytes between the branches. (Ferguson, "Bit-tree: a data
  /// structure for fast file processing", CACM 1992, for bits.)
  func blindSearch(_ key: TreeKey, _ range: Range<Int>) -> Int {
    // Only a leaf of a forged checkpoint can have tied keys and no bytes for them.
    guard isTied else { return range.lowerBound }
    let (shared, bytes, base) = (shared, bytes, prefixLength)
    var candidate = range.lowerBound
    var position = candidate &+ 1
    while position < range.upperBound {
      let length = shared[position]
      let (own, other) = (key[base &+ Int(length)], bytes[position])
      if length != Self.longShared, own == other {
        candidate = position
        position &+= 1
      } else if length == Self.longShared || own > other {
        // The keys of this branch are less than the key: skip them.
        position &+= 1
        while position < range.upperBound, shared[position] > length { position &+= 1 }
      } else {
        // This branch and the branches after it at this place are greater.
        position &+= 1
        while position < range.upperBound, shared[position] >= length { position &+= 1 }
      }
    }
    return candidate
  }

  /// Returns the number of bytes that the keys of two neighbours share.
  func sharedLength(before position: Int) -> Int {
    assert(position > 0 && position < count, "a leaf has no such neighbours")
    let difference = heads[position - 1] ^ heads[position]
    if difference != 0 { return prefixLength + difference.leadingZeroBitCount / 8 }
    let length = shared[position]
    return length == Self.longShared ? .max : prefixLength + Int(length)
  }

  /// Returns the first byte of a key that the key before it does not share.
  func distinguishingByte(_ position: Int) -> UInt8 {
    let difference = heads[position - 1] ^ heads[position]
    if difference == 0 { return bytes[position] }
    return UInt8(
      truncatingIfNeeded: heads[position] >> UInt32(24 - difference.leadingZeroBitCount / 8 * 8))
  }

  /// Finds the place of a key.
  ///
  /// - Parameter following: the order in which the caller will read the records after the place,
  ///   if it will. The first of them are fetched while the record that decides is read.
  /// - Throws: the errors of the source, when the record that decides cannot be read or is damaged.
  /// - Complexity: at most one record is read, unless keys share more than 254 bytes after the
  ///   leaf's prefix.
  func place<Source: TreeKeySource & ~Copyable>(
    of key: TreeKey, following: KeyOrder? = nil, _ source: borrowing Source
  ) throws(StoreError) -> LeafPlace {
    let length = prefixLength
    let count = count
    if count == 0 { return LeafPlace(position: 0) }
    if length > 0 {
      let (order, shared) = key.compare(prefix: UnsafeRawBufferPointer(prefix))
      if order < 0 {
        return LeafPlace(position: 0, sharedAfter: shared, byteAfter: prefix[shared])
      }
      if order > 0 { return LeafPlace(position: count, sharedBefore: shared) }
    }
    let head = key.head(after: length)
    let first = lowerBound(head)
    var end = first
    while end < count, heads[end] == head { end &+= 1 }
    if first == end {
      return completed(LeafPlace(position: first), head, first..<end)
    }
    let candidate = end &- first == 1 ? first : blindSearch(key, first..<end)
    if let following { prefetch(from: candidate, following, source) }
    let other = TreeKey(try source.key(at: address(candidate)))
    let known = key.shared(with: other)
    // All keys of the leaf have its prefix, and these ones the same head.
    guard known ?? .max >= length &+ Self.headBytes else { throw contradiction }
    guard let shared = known, shared < length &+ Int(Self.longShared) else {
      if other.count == key.count, key.shared(with: other) == nil {
        return LeafPlace(position: candidate, isMatch: true)
      }
      return completed(
        try searchLong(key, candidate, first..<end, source), head, first..<end)
    }
    let place = try place(
      of: key, beside: candidate, first..<end, shared: shared, otherByte: other[shared])
    return completed(place, head, first..<end)
  }

  /// Fetches the records of an entry, and of the first entries after it in an order.
  private func prefetch<Source: TreeKeySource & ~Copyable>(
    from position: Int, _ order: KeyOrder, _ source: borrowing Source
  ) {
    for distance in 0..<Self.followingCount {
      let next = order == .ascending ? position &+ distance : position &- distance
      guard next >= 0, next < count else { return }
      source.prefetch(address(next))
    }
  }

  /// Returns the place of a key that shares a known number of bytes with the candidate of a blind
  /// search, and with no entry more.
  private func place(
    of key: TreeKey, beside candidate: Int, _ range: Range<Int>, shared length: Int,
    otherByte: UInt8
  ) throws(StoreError) -> LeafPlace {
    // Shared lengths are counted from the end of the leaf's prefix. They are above that of the key
    // for all entries that share more with the candidate.
    let own = length &- prefixLength
    assert(own >= 0 && own < Int(Self.longShared), "a tied key shares less than the prefix")
    // Read only between two tied keys: other leaves do not have these bytes.
    let (shared, bytes) = (shared, bytes)
    if key[length] > otherByte {
      var position = candidate &+ 1
      while position < range.upperBound,
        Int(shared[position]) > own
          || (Int(shared[position]) == own && bytes[position] < key[length])
      {
        position &+= 1
      }
      var place = LeafPlace(position: position, sharedBefore: length)
      if position < range.upperBound {
        place.sharedAfter = prefixLength &+ Int(shared[position])
        place.byteAfter = bytes[position]
        guard place.sharedAfter <= length else { throw contradiction }
      }
      return place
    }
    var position = candidate
    while position > range.lowerBound, Int(shared[position]) > own { position &-= 1 }
    var place = LeafPlace(position: position, sharedAfter: length, byteAfter: otherByte)
    if position > range.lowerBound {
      place.sharedBefore = prefixLength &+ Int(shared[position])
      guard place.sharedBefore <= length else { throw contradiction }
    }
    return place
  }

  /// The error of a leaf whose records have other keys than the leaf says: no store writes such a
  /// leaf, but a forged checkpoint can have it.
  private var contradiction: StoreError {
    .indexDamaged("the tree of an ordered keyspace contradicts its records", nil)
  }

  /// Fills in what the heads say about the neighbours outside the range of tied keys.
  private func completed(_ place: LeafPlace, _ head: UInt32, _ range: Range<Int>) -> LeafPlace {
    var place = place
    if place.position == range.lowerBound, place.position > 0 {
      place.sharedBefore =
        prefixLength &+ (heads[place.position &- 1] ^ head).leadingZeroBitCount / 8
    }
    if place.position == range.upperBound, place.position < count {
      let other = heads[place.position]
      let shared = (other ^ head).leadingZeroBitCount / 8
      place.sharedAfter = prefixLength &+ shared
      place.byteAfter = UInt8(truncatingIfNeeded: other >> UInt32(24 - shared * 8))
    }
    return place
  }

  /// Finds the place of a key among keys that share more bytes than a leaf can say, by reading
  /// them.
  ///
  /// - Complexity: O(log n) records.
  private func searchLong<Source: TreeKeySource & ~Copyable>(
    _ key: TreeKey, _ candidate: Int, _ range: Range<Int>, _ source: borrowing Source
  ) throws(StoreError) -> LeafPlace {
    var low = candidate
    while low > range.lowerBound, shared[low] == Self.longShared { low -= 1 }
    var high = candidate + 1
    while high < range.upperBound, shared[high] == Self.longShared { high += 1 }
    let run = low..<high
    while low < high {
      let middle = (low + high) / 2
      let other = TreeKey(try source.key(at: address(middle)))
      let shared = key.shared(with: other)
      guard shared ?? .max >= prefixLength + Self.headBytes else { throw contradiction }
      if shared == nil, key.count == other.count {
        return LeafPlace(position: middle, isMatch: true)
      }
      if other.precedes(key) { low = middle + 1 } else { high = middle }
    }
    var place = LeafPlace(position: low)
    if low > run.lowerBound {
      place.sharedBefore = key.shared(with: TreeKey(try source.key(at: address(low - 1)))) ?? .max
      guard place.sharedBefore >= prefixLength else { throw contradiction }
    } else if low > range.lowerBound {
      place.sharedBefore = sharedLength(before: low)
    }
    if low < run.upperBound {
      let other = TreeKey(try source.key(at: address(low)))
      place.sharedAfter = key.shared(with: other) ?? .max
      guard place.sharedAfter >= prefixLength else { throw contradiction }
      place.byteAfter = place.sharedAfter == .max ? 0 : other[place.sharedAfter]
    } else if low < range.upperBound {
      place.sharedAfter = sharedLength(before: low)
      place.byteAfter = distinguishingByte(low)
    }
    return place
  }
}
