/// The entries of one leaf or of two neighbours, with keys that are inserted, while leaves are
/// written again.
///
/// A key that is in the log is known by the prefix and the head that it has in its leaf. A key that
/// is inserted is known completely. So leaves are written and separated without reading a record.
struct TreeEntries {
  struct Entry {
    let address: Address
    /// Index of the prefix that the head follows; nil for a key that is inserted.
    let prefix: Int?
    let head: UInt32
    /// Index of the inserted key; nil for a key that is in the log.
    let key: Int?
    /// The number of bytes shared with the entry before; `Int.max` when that is not known, and the
    /// keys share more bytes than a leaf can say.
    var shared: Int
    /// The first byte that is not shared.
    var byte: UInt8
  }

  private(set) var entries: [Entry] = []
  /// False when leaves come from a checkpoint, whose entries may be in another order than the keys.
  var isTrusted = true
  private var prefixes: [[UInt8]] = []
  private var keys: [[UInt8]] = []

  var count: Int { entries.count }

  /// Adds the prefix of a leaf, for the entries that are appended next.
  mutating func addPrefix(_ leaf: TreeLeaf) { prefixes.append([UInt8](leaf.prefix)) }

  /// Appends entries of the leaf whose prefix was added last.
  mutating func append(_ leaf: TreeLeaf, _ range: Range<Int>) {
    for position in range {
      entries.append(
        Entry(
          address: leaf.address(position), prefix: prefixes.count - 1, head: leaf.heads[position],
          key: nil, shared: position == 0 ? 0 : leaf.sharedLength(before: position),
          byte: position == 0 ? 0 : leaf.distinguishingByte(position)))
    }
  }

  /// Appends a key that is inserted.
  ///
  /// - Parameter shared: the number of bytes that it shares with the entry before it.
  mutating func append(_ key: TreeKey, _ address: Address, shared: Int) {
    keys.append([UInt8](key.bytes))
    entries.append(
      Entry(
        address: address, prefix: nil, head: 0, key: keys.count - 1, shared: shared,
        byte: shared == .max ? 0 : key[shared]))
  }

  /// Sets what an entry shares with the one before it.
  mutating func setShared(_ index: Int, _ shared: Int, _ byte: UInt8) {
    entries[index].shared = shared
    entries[index].byte = byte
  }

  mutating func setAddress(_ index: Int, _ address: Address) {
    let old = entries[index]
    entries[index] = Entry(
      address: address, prefix: old.prefix, head: old.head, key: old.key, shared: old.shared,
      byte: old.byte)
  }

  /// Keeps the entries of a range only.
  mutating func keepOnly(_ range: Range<Int>) { entries = Array(entries[range]) }

  /// Adds the entries of a neighbour, after the last entry or before the first one.
  ///
  /// - Returns: false when a key that must be read for that cannot be read; nothing useful is left
  ///   here then.
  mutating func join<Source: TreeKeySource & ~Copyable>(
    _ leaf: TreeLeaf, isAfter: Bool, _ source: borrowing Source
  ) -> Bool {
    let own = entries
    if !isAfter { entries.removeAll(keepingCapacity: true) }
    addPrefix(leaf)
    append(leaf, 0..<leaf.count)
    let middle = isAfter ? own.count : leaf.count
    if !isAfter { entries += own }
    if middle == 0 || middle == entries.count { return true }
    let (left, right) = (knownBytes(middle - 1), knownBytes(middle))
    if let place = zip(left, right).enumerated().first(where: { $1.0 != $1.1 })?.offset {
      assert(!isTrusted || left[place] < right[place], "two neighbours are not in order")
      guard left[place] < right[place] else { return false }
      setShared(middle, place, right[place])
      return true
    }
    let known = min(left.count, right.count)
    do throws(StoreError) {
      let last = try key(of: middle - 1, source)
      let next = try key(of: middle, source)
      return last.withBytes { last in
        next.withBytes { next in
          let shared = TreeKey(last).shared(with: TreeKey(next)) ?? .max
          assert(!isTrusted || shared >= known, "a leaf knows other bytes than its records have")
          guard shared >= known else { return false }
          setShared(middle, shared, shared == .max ? 0 : TreeKey(next)[shared])
          return true
        }
      }
    } catch {
      return false
    }
  }

  /// Returns the number of bytes that a key shares with an inserted one.
  func sharedWithInserted(_ index: Int, _ key: TreeKey) -> Int {
    keys[index].withBytes { TreeKey($0).shared(with: key) } ?? .max
  }

  private func key<Source: TreeKeySource & ~Copyable>(
    of index: Int, _ source: borrowing Source
  ) throws(StoreError) -> [UInt8] {
    if let key = entries[index].key { return keys[key] }
    return [UInt8](try source.key(at: entries[index].address))
  }

  /// Returns the bytes of an entry's key that are known, with zeros after the end of the key.
  private func knownBytes(_ index: Int) -> [UInt8] {
    let entry = entries[index]
    if let key = entry.key {
      return keys[key] + Array(repeating: 0, count: TreeLeaf.prefixLimit + TreeLeaf.headBytes)
    }
    return prefix(of: entry)
      + (0..<4).map { UInt8(truncatingIfNeeded: entry.head >> UInt32(24 - 8 * $0)) }
  }

  mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    prefixes.removeAll(keepingCapacity: true)
    keys.removeAll(keepingCapacity: true)
  }

  /// Returns the longest prefix that is known to be shared by the entries of a range.
  private func prefix(of range: Range<Int>) -> [UInt8] {
    var (result, last): ([UInt8]?, Int?) = (nil, nil)
    var inserted: (first: Int, last: Int)?
    for index in range {
      if let prefix = entries[index].prefix {
        if prefix == last { continue }
        last = prefix
        result = common(result, prefixes[prefix])
      } else if let key = entries[index].key {
        inserted = (inserted?.first ?? key, key)
      }
    }
    if let inserted {
      result = common(common(result, padded(keys[inserted.first])), padded(keys[inserted.last]))
    }
    guard let result else { return [] }
    // A single key says nothing about its future neighbours but what it shares with the last one.
    guard range.count == 1, inserted != nil else { return result }
    return Array(result.prefix(min(entries[range.lowerBound].shared, result.count)))
  }

  private func common(_ one: [UInt8]?, _ other: [UInt8]) -> [UInt8] {
    guard let one else { return other }
    var length = 0
    while length < min(one.count, other.count), one[length] == other[length] { length += 1 }
    return length == one.count ? one : Array(one[..<length])
  }

  /// Returns the prefix of the leaf in which an entry of the log was.
  private func prefix(of entry: Entry) -> [UInt8] {
    guard let prefix = entry.prefix else {
      fatalError("an entry has neither an inserted key nor a prefix")
    }
    return prefixes[prefix]
  }

  private func padded(_ key: [UInt8]) -> [UInt8] {
    Array(
      (key + Array(repeating: 0, count: max(0, TreeLeaf.prefixLimit - key.count)))
        .prefix(TreeLeaf.prefixLimit))
  }

  /// Returns the head that an entry has after a prefix, which is not longer than its own.
  private func head(_ index: Int, after prefix: [UInt8]) -> UInt32 {
    let entry = entries[index]
    if let key = entry.key { return keys[key].withBytes { TreeKey($0).head(after: prefix.count) } }
    let own = self.prefix(of: entry)
    if own.count == prefix.count { return entry.head }
    assert(own.count > prefix.count, "a prefix becomes longer without its bytes being known")
    let known = own[prefix.count...].prefix(4)
    let head = known.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } << 32 | UInt64(entry.head)
    return UInt32(truncatingIfNeeded: head >> UInt64(8 * known.count))
  }

  /// Returns whether the entries of a range fit into one leaf.
  ///
  /// - Parameter limit: the most entries; tests make it small.
  func fits(_ range: Range<Int>, limit: Int) -> Bool {
    if range.count > min(limit, TreeLeaf.plainCapacity) { return false }
    return range.count <= TreeLeaf.tiedCapacity || !hasTies(range)
  }

  private func hasTies(_ range: Range<Int>) -> Bool {
    hasTies(range, prefixLength: prefix(of: range).count)
  }

  private func hasTies(_ range: Range<Int>, prefixLength: Int) -> Bool {
    range.dropFirst().contains { entries[$0].shared >= prefixLength + TreeLeaf.headBytes }
  }

  /// Reads the keys of a range that has tied keys, so that its prefix becomes as long as it can be
  /// and its heads distinguish more keys. Changes nothing when a key cannot be read, or when that
  /// would take long.
  mutating func lengthenPrefix<Source: TreeKeySource & ~Copyable>(
    of range: Range<Int>, _ source: borrowing Source
  ) {
    guard range.count > 1, hasTies(range) else { return }
    let known = prefix(of: range).count
    let shared = range.dropFirst().reduce(Int.max) { min($0, entries[$1].shared) }
    let length = min(shared, TreeLeaf.prefixLimit)
    guard length > known,
      range.allSatisfy({
        entries[$0].key != nil || source.isCheapToRead(entries[$0].address)
      })
    else { return }
    var (prefix, heads): ([UInt8], [UInt32]) = ([], [])
    // A shared length that a leaf could not say counts from the end of its shorter prefix.
    var exact: [(index: Int, shared: Int, byte: UInt8)] = []
    var last: [UInt8] = []
    do throws(StoreError) {
      for index in range {
        let bytes = try key(of: index, source)
        guard bytes.withBytes({ read(TreeKey($0), length, &prefix, &heads) }) else {
          assert(!isTrusted, "a key has not the leaf's prefix, or is not in its order")
          return
        }
        if index > range.lowerBound, entries[index].shared == .max {
          let shared = last.withBytes { last in
            bytes.withBytes { TreeKey(last).shared(with: TreeKey($0)) }
          }
          if let shared {
            exact.append((index, shared, bytes.withBytes { TreeKey($0)[shared] }))
          }
        }
        if !isTrusted, index > range.lowerBound, !follows(bytes, last, entries[index]) { return }
        last = bytes
      }
    } catch {
      return
    }
    prefixes.append(prefix)
    for (index, shared, byte) in exact { setShared(index, shared, byte) }
    for (index, head) in zip(range, heads) where entries[index].key == nil {
      let old = entries[index]
      entries[index] = Entry(
        address: old.address, prefix: prefixes.count - 1, head: head, key: nil, shared: old.shared,
        byte: old.byte)
    }
  }

  /// Whether a key that was read follows the last one, and shares with it what its entry says.
  private func follows(_ key: [UInt8], _ last: [UInt8], _ entry: Entry) -> Bool {
    last.withBytes { last in
      key.withBytes { key in
        let shared = TreeKey(last).shared(with: TreeKey(key)) ?? .max
        return TreeKey(last).precedes(TreeKey(key))
          && (entry.shared == .max || entry.shared == shared)
      }
    }
  }

  /// - Returns: whether the key begins with the prefix and is not before the last one.
  private func read(
    _ key: TreeKey, _ length: Int, _ prefix: inout [UInt8], _ heads: inout [UInt32]
  ) -> Bool {
    if prefix.isEmpty { prefix = (0..<length).map { key[$0] } }
    let head = key.head(after: length)
    guard (0..<length).allSatisfy({ key[$0] == prefix[$0] }), heads.last ?? 0 <= head else {
      return false
    }
    heads.append(head)
    return true
  }

  /// Writes the entries of a range into a leaf.
  func write(_ range: Range<Int>, to leaf: TreeLeaf) {
    let prefix = prefix(of: range)
    leaf.clear()
    leaf.isTied = hasTies(range, prefixLength: prefix.count)
    leaf.prefixLength = prefix.count
    leaf.count = range.count
    leaf.prefix.copyBytes(from: prefix)
    for (position, index) in range.enumerated() {
      leaf.heads[position] = head(index, after: prefix)
      leaf.setAddress(position, entries[index].address)
      guard leaf.isTied else { continue }
      let shared = entries[index].shared
      leaf.shared[position] =
        position == 0
        ? 0 : UInt8(min(max(0, shared == .max ? 255 : shared - prefix.count), 255))
      leaf.bytes[position] = entries[index].byte
    }
    leaf.renewSamples(from: 0)
    assert(!isTrusted || leaf.isOrdered, "the entries of a leaf are not in order")
  }

  /// Returns a separator before an entry: it is greater than all keys before the entry, and not
  /// greater than the entry's key. Returns nil when its bytes are not known.
  func separator(before index: Int) -> [UInt8]? {
    assert(index > 0 && index < count, "no separator is before the first entry")
    let (entry, shared) = (entries[index], entries[index].shared)
    if let key = entry.key {
      return shared == .max ? keys[key] : Array(keys[key].prefix(shared + 1))
    }
    if let key = entries[index - 1].key {
      return shared == .max ? keys[key] + [0] : bytes(of: key, shared, then: entry.byte)
    }
    guard shared != .max else { return nil }
    let prefix = prefix(of: entry)
    if shared < prefix.count { return Array(prefix.prefix(shared + 1)) }
    if shared < prefix.count + TreeLeaf.headBytes {
      return Array(knownBytes(index).prefix(shared + 1))
    }
    return reachableKey(index).map { bytes(of: $0, shared, then: entry.byte) }
  }

  /// Returns an inserted key that begins with all bytes that an entry shares with the one before.
  private func reachableKey(_ index: Int) -> Int? {
    let shared = entries[index].shared
    var after = index + 1
    while after < count, entries[after].shared >= shared {
      if let key = entries[after].key { return key }
      after += 1
    }
    var before = index - 1
    while before > 0, entries[before].shared >= shared {
      if let key = entries[before - 1].key { return key }
      before -= 1
    }
    return nil
  }

  private func bytes(of key: Int, _ length: Int, then byte: UInt8) -> [UInt8] {
    keys[key].withBytes { raw in
      let key = TreeKey(raw)
      return (0..<length).map { key[$0] } + [byte]
    }
  }
}
