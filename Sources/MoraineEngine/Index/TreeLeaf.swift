import MoraineStorage

/// A leaf of a tree of ``TreeIndex``: a page of 4 KiB with the addresses of records, in the order
/// of their keys.
///
/// The keys are in the log. For each key the leaf has four bytes, the *head*: the bytes of the key
/// after the *prefix* that all keys of the leaf begin with. (Bohannon, McIlroy, Rastogi,
/// "Main-memory index structures with fixed-size partial keys", SIGMOD 2001; prefix truncation:
/// Bayer and Unterauer, "Prefix B-trees", TODS 1977.) Zeros follow the end of a key, so keys are
/// compared as if zeros without end followed them; of two keys that are equal then, the shorter one
/// comes first. That is the order of their bytes.
///
/// ```
/// byte 0   count u16 | unused u16 | prefixLength u16 | flags u16 | appended u16 | prefix [44]
///      64  samples u32[32]: every 16th head
///     192  heads u32[capacity], ascending; then addresses, 6 bytes each
/// ```
///
/// Keys with equal heads are *tied*. A leaf with tied keys has two more bytes for each entry: the
/// length of the prefix that the key shares with the key before it, counted from the end of the
/// leaf's prefix, and the first byte of the key after it. With them a look-up finds the one record
/// that can have the key (Ferragina and Grossi, "The string B-tree", JACM 1999). In a leaf without
/// tied keys, both follow from the heads.
struct TreeLeaf {
  static let pageBytes = 4096
  /// Capacity of a leaf without tied keys, and of one with tied keys.
  static let plainCapacity = 390
  static let tiedCapacity = 324
  static let prefixLimit = 44
  /// A shared length that is not known exactly: it is as long or longer, or the keys differ only in
  /// the number of zeros at their ends.
  static let longShared: UInt8 = 255
  static let headBytes = 4
  static let addressBytes = 6
  private static let samplesOffset = 64
  private static let sampleStep = 16
  private static let headsOffset = 192

  let base: UnsafeMutableRawPointer

  @inline(__always)
  init(_ page: UnsafeMutablePointer<UInt64>) { base = UnsafeMutableRawPointer(page) }

  @inline(__always)
  private func field(_ offset: Int) -> UnsafeMutablePointer<UInt16> {
    (base + offset).assumingMemoryBound(to: UInt16.self)
  }

  @inline(__always)
  var count: Int {
    get { Int(field(0).pointee) }
    nonmutating set { field(0).pointee = UInt16(truncatingIfNeeded: newValue) }
  }
  /// 0 for a leaf, and the height above the leaves for other nodes.
  @inline(__always)
  var level: Int { Int(field(2).pointee) }
  @inline(__always)
  var prefixLength: Int {
    get { Int(field(4).pointee) }
    nonmutating set { field(4).pointee = UInt16(truncatingIfNeeded: newValue) }
  }
  /// Whether the leaf has the bytes for tied keys.
  @inline(__always)
  var isTied: Bool {
    get { field(6).pointee & 1 != 0 }
    nonmutating set { field(6).pointee = newValue ? 1 : 0 }
  }
  /// Whether the leaf has no flag that this version does not know.
  var flagsAreKnown: Bool { field(6).pointee <= 1 }
  /// Number of insertions at the end of the leaf since the last one elsewhere, up to 255.
  var appendedCount: Int {
    get { Int(field(8).pointee) }
    nonmutating set { field(8).pointee = UInt16(min(newValue, 255)) }
  }
  @inline(__always)
  var prefix: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: base + 10, count: prefixLength)
  }
  @inline(__always)
  var capacity: Int { isTied ? Self.tiedCapacity : Self.plainCapacity }
  @inline(__always)
  var heads: UnsafeMutablePointer<UInt32> {
    (base + Self.headsOffset).assumingMemoryBound(to: UInt32.self)
  }
  @inline(__always)
  private var samples: UnsafeMutablePointer<UInt32> {
    (base + Self.samplesOffset).assumingMemoryBound(to: UInt32.self)
  }
  @inline(__always)
  var addresses: UnsafeMutableRawPointer { base + Self.headsOffset + capacity &* 4 }
  /// The shared lengths of a leaf with tied keys.
  @inline(__always)
  var shared: UnsafeMutablePointer<UInt8> {
    (base + Self.headsOffset + Self.tiedCapacity &* 10).assumingMemoryBound(to: UInt8.self)
  }
  /// The bytes after the shared lengths, of a leaf with tied keys.
  @inline(__always)
  var bytes: UnsafeMutablePointer<UInt8> { shared + Self.tiedCapacity }

  @inline(__always)
  func address(_ position: Int) -> Address {
    assert(position >= 0 && position < count, "a leaf has no such entry")
    return Self.loadAddress(at: addressPlace(position))
  }

  /// Returns the place of the address of an entry.
  @inline(__always)
  func addressPlace(_ position: Int) -> UnsafeMutableRawPointer {
    addresses + (position &* Self.addressBytes)
  }

  @inline(__always)
  static func loadAddress(at place: UnsafeRawPointer) -> Address {
    let low = UInt64(place.loadUnaligned(as: UInt32.self))
    let high = UInt64((place + 4).loadUnaligned(as: UInt16.self))
    return Address(rawValue: high &<< 32 | low)
  }

  @inline(__always)
  func setAddress(_ position: Int, _ address: Address) {
    let place = addressPlace(position)
    place.storeBytes(of: UInt32(truncatingIfNeeded: address.rawValue), as: UInt32.self)
    (place + 4).storeBytes(
      of: UInt16(truncatingIfNeeded: address.rawValue &>> 32), as: UInt16.self)
  }

  /// Makes a page a leaf without entries.
  func clear() {
    base.initializeMemory(as: UInt8.self, repeating: 0, count: Self.headsOffset)
  }

  /// Writes the samples of the entries from a position on.
  @inline(__always)
  func renewSamples(from position: Int) {
    let heads = heads
    let samples = samples
    var sample = (position &+ Self.sampleStep &- 1) / Self.sampleStep
    while sample &* Self.sampleStep < count {
      samples[sample] = heads[sample &* Self.sampleStep]
      sample &+= 1
    }
  }

  /// Whether the samples and the order of the heads are as they must be. For checks.
  var isOrdered: Bool {
    for position in 0..<count {
      if position > 0, heads[position] < heads[position - 1] { return false }
      if position % Self.sampleStep == 0, samples[position / Self.sampleStep] != heads[position] {
        return false
      }
    }
    return true
  }

  /// Returns the number of heads that are less than a head.
  @inline(__always)
  func lowerBound(_ head: UInt32) -> Int {
    let count = count
    let sampleCount = (count &+ Self.sampleStep &- 1) / Self.sampleStep
    // The number of samples below the head: a leaf has at most 25 samples.
    var group = 0
    let samples = samples
    while group < sampleCount, samples[group] < head { group &+= 1 }
    if group == 0 { return 0 }
    let start = (group &- 1) &* Self.sampleStep
    let heads = heads
    let left = min(Self.sampleStep, count &- start)
    var position = 1
    while position < left, heads[start &+ position] < head { position &+= 1 }
    return start &+ position
  }

  /// Prefetches the lines of the page that a look-up reads first.
  @inline(__always)
  static func prefetch(_ page: UnsafeMutablePointer<UInt64>) {
    let base = UnsafeRawPointer(page)
    CPU.prefetch(base)
    CPU.prefetch(base + 64)
    CPU.prefetch(base + 128)
  }
}

extension TreeLeaf {
  /// Whether a key can be inserted without writing the leaf again: it begins with the leaf's
  /// prefix, and the leaf has the bytes for tied keys if the key is tied.
  @inline(__always)
  func accepts(_ key: TreeKey, _ place: LeafPlace) -> Bool {
    let prefix = UnsafeRawBufferPointer(prefix)
    guard prefix.isEmpty || key.compare(prefix: prefix).order == 0 else { return false }
    if isTied { return true }
    let head = key.head(after: prefixLength)
    return (place.position == 0 || heads[place.position &- 1] != head)
      && (place.position == count || heads[place.position] != head)
  }

  /// Inserts an entry. The leaf has room for it and accepts it.
  func insert(_ key: TreeKey, _ address: Address, _ place: LeafPlace) {
    let position = place.position
    let after = count &- position
    assert(count < capacity, "an entry is inserted into a full leaf")
    let heads = heads
    (heads + (position &+ 1)).update(from: heads + position, count: after)
    heads[position] = key.head(after: prefixLength)
    let start = addressPlace(position)
    (start + Self.addressBytes).copyMemory(from: start, byteCount: after &* Self.addressBytes)
    if isTied { insertShared(key, place, after) }
    appendedCount = after == 0 ? appendedCount &+ 1 : 0
    count &+= 1
    setAddress(position, address)
    renewSamples(from: position)
  }

  private func insertShared(_ key: TreeKey, _ place: LeafPlace, _ after: Int) {
    let position = place.position
    let (shared, bytes) = (shared, bytes)
    (shared + position + 1).update(from: shared + position, count: after)
    (bytes + position + 1).update(from: bytes + position, count: after)
    shared[position] = position == 0 ? 0 : relative(place.sharedBefore)
    bytes[position] = position == 0 || place.sharedBefore == .max ? 0 : key[place.sharedBefore]
    guard after > 0 else { return }
    shared[position + 1] = relative(place.sharedAfter)
    bytes[position + 1] = place.byteAfter
  }

  private func relative(_ shared: Int) -> UInt8 {
    shared == .max ? Self.longShared : UInt8(min(shared - prefixLength, Int(Self.longShared)))
  }

  /// Removes an entry.
  func remove(_ position: Int) {
    let after = count - position - 1
    assert(after >= 0, "a leaf has no such entry")
    let heads = heads
    (heads + position).update(from: heads + position + 1, count: after)
    let start = addressPlace(position)
    start.copyMemory(from: start + Self.addressBytes, byteCount: after * Self.addressBytes)
    if isTied {
      let (shared, bytes) = (shared, bytes)
      // The next key shares with the key before what both share with the removed key.
      let (length, byte) = (shared[position], bytes[position])
      (shared + position).update(from: shared + position + 1, count: after)
      (bytes + position).update(from: bytes + position + 1, count: after)
      if after > 0, position > 0, length < shared[position] {
        shared[position] = length
        bytes[position] = byte
      }
    }
    count -= 1
    renewSamples(from: position)
  }
}

/// The bytes of a key, as a tree compares them.
struct TreeKey {
  let bytes: UnsafeRawBufferPointer

  @inline(__always)
  init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  @inline(__always)
  var count: Int { bytes.count }

  /// Returns a byte of the key; zero after its end.
  @inline(__always)
  subscript(_ index: Int) -> UInt8 { index < bytes.count ? bytes[index] : 0 }

  /// Returns four bytes of the key, the first one highest. Zeros follow the key's end.
  @inline(__always)
  func head(after length: Int) -> UInt32 {
    if length &+ 4 <= bytes.count {
      return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: length, as: UInt32.self))
    }
    var head: UInt32 = 0
    for index in 0..<4 { head = head &<< 8 | UInt32(self[length &+ index]) }
    return head
  }

  /// Returns the number of bytes that two keys share, with zeros after their ends; nil when they
  /// differ only in the number of zeros at their ends, or not at all.
  func shared(with other: TreeKey) -> Int? {
    let common = min(count, other.count)
    var index = 0
    while index &+ 8 <= common {
      let left = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      let right = other.bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      if left != right { return index &+ (left ^ right).trailingZeroBitCount &>> 3 }
      index &+= 8
    }
    while index < common, bytes[index] == other.bytes[index] { index &+= 1 }
    if index < common { return index }
    let end = max(count, other.count)
    while index < end, self[index] == other[index] { index &+= 1 }
    return index < end ? index : nil
  }

  /// Whether the key is less than another one, by their bytes.
  func precedes(_ other: TreeKey) -> Bool {
    if let shared = shared(with: other) { return self[shared] < other[shared] }
    return count < other.count
  }

  /// Compares the first bytes of the key with other bytes: -1 when the key is less, 1 when it is
  /// greater, 0 when it begins with them. Zeros follow the end of the key.
  @inline(__always)
  func compare(prefix: UnsafeRawBufferPointer) -> (order: Int, shared: Int) {
    var index = 0
    while index < prefix.count {
      let (own, other) = (self[index], prefix[index])
      if own != other { return (own < other ? -1 : 1, index) }
      index &+= 1
    }
    return (0, index)
  }
}
