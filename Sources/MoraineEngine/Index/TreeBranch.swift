import MoraineFormat
import MoraineStorage

/// A node of a tree of ``TreeIndex`` above the leaves: a page of 4 KiB with the numbers of its
/// children, how many entries are below each, and the separators between them.
///
/// A separator is greater than every key below the children before it, and not greater than any key
/// below the child after it. It is as short as that allows.
///
/// ```
/// byte 0  childCount u16 | level u16 | prefixLength u16 | unused u16 | unused 8
///     16  heads u32[n - 1]: four bytes of each separator after the prefix
///         children u32[n] | counts u32[n] | ends u16[n - 1] | prefix | rest of each separator
/// ```
struct TreeBranch {
  private static let headerBytes = 16
  /// The length of the longest separator: the longest key, and a zero if the next key differs only
  /// in zeros at its end.
  static let separatorLimit = StoreLimits.orderedKeyLengthBytes + 1

  let base: UnsafeMutableRawPointer

  @inline(__always)
  init(_ page: UnsafeMutablePointer<UInt64>) { base = UnsafeMutableRawPointer(page) }

  @inline(__always)
  private func field(_ offset: Int) -> Int {
    Int((base + offset).assumingMemoryBound(to: UInt16.self).pointee)
  }

  @inline(__always)
  var childCount: Int { field(0) }
  @inline(__always)
  var level: Int { field(2) }
  @inline(__always)
  private var prefixLength: Int { field(4) }
  @inline(__always)
  private var heads: UnsafeMutablePointer<UInt32> {
    (base + Self.headerBytes).assumingMemoryBound(to: UInt32.self)
  }
  @inline(__always)
  private var children: UnsafeMutablePointer<UInt32> { heads + (childCount &- 1) }
  @inline(__always)
  private var counts: UnsafeMutablePointer<UInt32> { children + childCount }
  @inline(__always)
  private var ends: UnsafeMutablePointer<UInt16> {
    UnsafeMutableRawPointer(counts + childCount).assumingMemoryBound(to: UInt16.self)
  }
  @inline(__always)
  private var heap: UnsafeMutableRawPointer { UnsafeMutableRawPointer(ends + (childCount &- 1)) }
  @inline(__always)
  private var prefix: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: heap, count: prefixLength)
  }

  @inline(__always)
  func child(_ index: Int) -> Int { Int(children[index]) }
  func setChild(_ index: Int, _ node: Int) { children[index] = UInt32(node) }
  @inline(__always)
  func count(_ index: Int) -> Int { Int(counts[index]) }
  /// The number of entries below the branch.
  var total: Int { (0..<childCount).reduce(0) { $0 + count($1) } }

  /// Whether the lengths in the page describe fields that lie in the page.
  var hasFieldsInPage: Bool {
    let fixed = Self.headerBytes + childCount * 14 - 6
    guard childCount > 0, fixed + prefixLength <= TreeLeaf.pageBytes else { return false }
    var last: UInt16 = 0
    for index in 0..<childCount - 1 {
      guard ends[index] >= last else { return false }
      last = ends[index]
    }
    return fixed + prefixLength + Int(last) <= TreeLeaf.pageBytes
  }

  /// Whether the head of a separator is that of its bytes.
  func hasHead(_ index: Int) -> Bool { heads[index] == TreeKey(rest(index)).head(after: 0) }
  @inline(__always)
  func addToCount(_ index: Int, _ difference: Int) {
    counts[index] = UInt32(truncatingIfNeeded: Int(counts[index]) &+ difference)
  }

  /// Returns the bytes of a separator after the prefix.
  @inline(__always)
  private func rest(_ index: Int) -> UnsafeRawBufferPointer {
    let start = index == 0 ? 0 : Int(ends[index &- 1])
    return UnsafeRawBufferPointer(
      start: heap + prefixLength + start, count: Int(ends[index]) &- start)
  }

  /// Returns the separator before the child after `index`.
  func separator(_ index: Int) -> [UInt8] { [UInt8](prefix) + [UInt8](rest(index)) }

  /// Returns the index of the child below which a key is or would be: the number of separators that
  /// are not greater than the key.
  @inline(__always)
  func index(of key: TreeKey) -> Int {
    let separatorCount = childCount &- 1
    let length = prefixLength
    if length > 0 {
      let (order, _) = key.compare(prefix: prefix)
      if order < 0 { return 0 }
      if order > 0 { return separatorCount }
    }
    let head = key.head(after: length)
    let heads = heads
    var (low, high) = (0, separatorCount)
    while low < high {
      let middle = (low &+ high) &>> 1
      if heads[middle] < head { low = middle &+ 1 } else { high = middle }
    }
    while low < separatorCount, heads[low] == head, !isBefore(key, length, low) { low &+= 1 }
    return low
  }

  /// Whether a key with the head of a separator precedes it.
  private func isBefore(_ key: TreeKey, _ length: Int, _ index: Int) -> Bool {
    let rest = rest(index)
    let other = TreeKey(rest)
    let own = TreeKey(
      UnsafeRawBufferPointer(rebasing: key.bytes.dropFirst(length)))
    return own.precedes(other)
      // The key ends inside the prefix: fewer zeros than the separator has.
      || (key.count < length && own.shared(with: other) == nil)
  }

  /// The contents of a branch, as a change reads and writes them.
  struct Contents {
    var separators: [[UInt8]] = []
    var children: [Int] = []
    var counts: [Int] = []

    var total: Int { counts.reduce(0, +) }

    /// The number of bytes that the children from `range` need in a page.
    func byteCount(_ range: Range<Int>) -> Int {
      let own = separators[range.lowerBound..<max(range.lowerBound, range.upperBound - 1)]
      let prefix = Self.prefixLength(own)
      return own.reduce(TreeBranch.headerBytes + range.count * 14 - 6 + prefix) {
        $0 + $1.count - min(prefix, $1.count)
      }
    }

    static func prefixLength(_ separators: ArraySlice<[UInt8]>) -> Int {
      guard let first = separators.first, let last = separators.last else { return 0 }
      // All separators are in order, so what the first and the last share, all share. No separator
      // ends inside the prefix.
      let shortest = separators.reduce(Int.max) { min($0, $1.count) }
      var length = 0
      while length < shortest, first[length] == last[length] { length += 1 }
      return separators.count == 1 ? max(0, length - 4) : length
    }
  }

  var contents: Contents {
    var contents = Contents()
    for index in 0..<childCount {
      contents.children.append(child(index))
      contents.counts.append(count(index))
      if index > 0 { contents.separators.append(separator(index - 1)) }
    }
    return contents
  }

  /// Writes a part of the contents into the page.
  func write(_ contents: Contents, _ range: Range<Int>, level: Int) {
    assert(contents.byteCount(range) <= TreeLeaf.pageBytes, "the children do not fit a page")
    let own = contents.separators[range.lowerBound..<range.upperBound - 1]
    let length = Contents.prefixLength(own)
    let header = base.assumingMemoryBound(to: UInt16.self)
    base.initializeMemory(as: UInt8.self, repeating: 0, count: Self.headerBytes)
    header[0] = UInt16(range.count)
    header[1] = UInt16(level)
    header[2] = UInt16(length)
    for (place, index) in range.enumerated() {
      children[place] = UInt32(contents.children[index])
      counts[place] = UInt32(contents.counts[index])
    }
    let heap = heap
    if let first = own.first {
      heap.copyMemory(from: Array(first.prefix(length)), byteCount: length)
    }
    var end = 0
    for (place, separator) in own.enumerated() {
      heads[place] = separator.withBytes { TreeKey($0).head(after: length) }
      let rest = Array(separator.dropFirst(length))
      (heap + length + end).copyMemory(from: rest, byteCount: rest.count)
      end += rest.count
      ends[place] = UInt16(end)
    }
  }
}

// Changes of a branch whose new contents fit into its page. All other changes write it again.
extension TreeBranch {
  /// The number of bytes in use.
  private var byteCount: Int {
    let rests = childCount > 1 ? Int(ends[childCount - 2]) : 0
    return Self.headerBytes + childCount * 14 - 6 + prefixLength + rests
  }

  private func beginsWithPrefix(_ separator: [UInt8]) -> Bool {
    separator.count >= prefixLength
      && separator.withBytes { $0.prefix(prefixLength).elementsEqual(prefix) }
  }

  /// Inserts a child after another one, if the page has room.
  ///
  /// - Parameter separator: the separator between the two.
  /// - Returns: whether the child was inserted.
  func insert(_ child: Int, count: Int, _ separator: [UInt8], after index: Int) -> Bool {
    assert(index < childCount, "a child is inserted after one that does not exist")
    let length = separator.count - prefixLength
    // The first separator decides the prefix.
    guard childCount > 1, beginsWithPrefix(separator),
      byteCount + 14 + length <= TreeLeaf.pageBytes
    else { return false }
    withCopy { old in
      base.assumingMemoryBound(to: UInt16.self)[0] = UInt16(old.childCount + 1)
      let separatorCount = old.childCount - 1
      // The heads stay where they are, up to the new one.
      (heads + (index + 1)).update(from: old.heads + index, count: separatorCount - index)
      heads[index] = separator.withBytes { TreeKey($0).head(after: prefixLength) }
      insert(UInt32(child), at: index + 1, old.children, children, old.childCount)
      insert(UInt32(count), at: index + 1, old.counts, counts, old.childCount)
      copySeparators(old, 0..<index, to: 0, shift: 0)
      let start = index == 0 ? 0 : Int(old.ends[index - 1])
      ends[index] = UInt16(start + length)
      separator.withBytes {
        UnsafeMutableRawBufferPointer(start: heap + prefixLength + start, count: length)
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.dropFirst(prefixLength)))
      }
      copySeparators(old, index..<separatorCount, to: index + 1, shift: length)
    }
    return true
  }

  /// Whether the page has room for another separator in the place of one.
  func hasRoom(for separator: [UInt8], at index: Int) -> Bool {
    beginsWithPrefix(separator)
      && byteCount - rest(index).count + separator.count - prefixLength <= TreeLeaf.pageBytes
  }

  /// Replaces a separator by another one, for which the page has room.
  func setSeparator(_ index: Int, _ separator: [UInt8]) {
    assert(hasRoom(for: separator, at: index), "a separator does not fit the page")
    let length = separator.count - prefixLength
    withCopy { old in
      let start = index == 0 ? 0 : Int(old.ends[index - 1])
      let difference = start + length - Int(old.ends[index])
      heads[index] = separator.withBytes { TreeKey($0).head(after: prefixLength) }
      ends[index] = UInt16(start + length)
      separator.withBytes {
        UnsafeMutableRawBufferPointer(start: heap + prefixLength + start, count: length)
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.dropFirst(prefixLength)))
      }
      copySeparators(old, index + 1..<old.childCount - 1, to: index + 1, shift: difference)
    }
  }

  /// Calls the body with the branch as it is, in other memory.
  private func withCopy(_ body: (TreeBranch) -> Void) {
    withUnsafeTemporaryAllocation(
      of: UInt64.self, capacity: TreeLeaf.pageBytes / MemoryLayout<UInt64>.size
    ) { copy in
      guard let copyBase = copy.baseAddress else { fatalError("a buffer of a page is empty") }
      UnsafeMutableRawPointer(copyBase).copyMemory(from: base, byteCount: byteCount)
      body(TreeBranch(copyBase))
    }
  }

  private func insert(
    _ value: UInt32, at index: Int, _ source: UnsafeMutablePointer<UInt32>,
    _ target: UnsafeMutablePointer<UInt32>, _ count: Int
  ) {
    target.update(from: source, count: index)
    target[index] = value
    (target + (index + 1)).update(from: source + index, count: count - index)
  }

  /// Copies the ends and the bytes of separators, and the prefix with the first of them.
  ///
  /// - Parameter shift: how many bytes later the separators lie.
  private func copySeparators(
    _ old: TreeBranch, _ range: Range<Int>, to place: Int, shift: Int
  ) {
    if place == 0 { heap.copyMemory(from: old.heap, byteCount: prefixLength) }
    guard !range.isEmpty else { return }
    for (index, target) in zip(range, place...) {
      ends[target] = UInt16(Int(old.ends[index]) + shift)
    }
    let start = range.lowerBound == 0 ? 0 : Int(old.ends[range.lowerBound - 1])
    (heap + prefixLength + start + shift).copyMemory(
      from: old.heap + prefixLength + start,
      byteCount: Int(old.ends[range.upperBound - 1]) - start)
  }
}
