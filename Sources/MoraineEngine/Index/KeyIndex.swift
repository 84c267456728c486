import MoraineStorage

/// An index of live records: it maps the hash of a key to the addresses at which the key's record
/// may be.
///
/// The protocol is what the rest of the engine knows of an index. Slots, buckets, tags and levels
/// stay in this folder. An index stores no keys: the caller reads the record at a candidate's
/// address, and compares its key. It implements the look-ups of the store's own index and those of
/// a snapshot with the same code. (One layout implements it so far, ``HashIndex``, with its frozen
/// copy ``FrozenIndex``; an index in key order is to be the second one.)
protocol KeyIndex: ~Copyable {
  /// An iteration over the entries that may belong to a key.
  associatedtype Candidates

  /// Number of entries.
  var count: Int { get }

  /// Begins an iteration over the entries that may belong to a hash.
  func candidates(_ hash: UInt64) -> Candidates

  /// Returns the next entry of the iteration; nil when there are no more.
  func next(_ candidates: inout Candidates) -> IndexEntry?

  /// Whether the index has an entry for exactly this record of a key with the hash.
  func holds(_ address: Address, _ hash: UInt64) -> Bool

  /// Prefetches the memory that a look-up of the hash reads first.
  func prefetch(_ hash: UInt64)
}

/// Address of a record: the slot of its segment in the segment table (20 bits), and its offset in
/// units of four bytes (28 bits), so only operations, which
/// begin before 1 GiB, have addresses. An address fits into the 48 bits that an index slot has for
/// it.
struct Address: Equatable {
  static let offsetBits: UInt64 = 28
  static let mask: UInt64 = (1 << 48) - 1

  let rawValue: UInt64

  @inline(__always)
  init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  @inline(__always)
  init(slot: Int, offset: Int) {
    assert(slot >= 0 && slot < Int(HashIndex.linkSlot), "no segment has this slot")
    rawValue =
      UInt64(truncatingIfNeeded: slot) &<< Self.offsetBits
      | UInt64(truncatingIfNeeded: offset) &>> 2
  }

  @inline(__always)
  var slot: Int { Int(truncatingIfNeeded: rawValue &>> Self.offsetBits) }
  @inline(__always)
  var offset: Int {
    Int(truncatingIfNeeded: (rawValue & ((1 &<< Self.offsetBits) &- 1)) &<< 2)
  }
}

/// A hash index, live or of a snapshot: what a look-up needs of its layout. Used in this folder
/// only.
protocol ProbedIndex: ~Copyable, KeyIndex where Candidates == Probe {
  var level: Int { get }
  var split: Int { get }
  var tagShift: Int { get }
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
}

extension ProbedIndex where Self: ~Copyable {
  /// Whether this round renews the tags of the buckets that it splits.
  @inline(__always)
  var renewsTags: Bool { level &- tagShift == HashIndex.levelsPerTag }

  /// Returns the bucket that a hash belongs to, and the tag that it has there.
  @inline(__always)
  func place(_ hash: UInt64) -> (bucket: Int, tag: UInt64) {
    let low = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level)) &- 1))
    guard low < split else { return (low, (hash &>> UInt64(tagShift)) & 0xFFFF) }
    let bucket = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level &+ 1)) &- 1))
    let shift = renewsTags ? tagShift &+ HashIndex.levelsPerTag : tagShift
    return (bucket, (hash &>> UInt64(shift)) & 0xFFFF)
  }

  /// - Complexity: one cache line, two for about a fifth of the keys.
  @inline(__always)
  func candidates(_ hash: UInt64) -> Probe {
    let (number, tag) = place(hash)
    return Probe(bucket: bucket(number), tag: tag)
  }

  @inline(__always)
  func next(_ candidates: inout Probe) -> IndexEntry? { candidates.next(self) }

  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool {
    var probe = candidates(hash)
    while let entry = probe.next(self) {
      if entry.address == address { return true }
    }
    return false
  }

  /// Prefetches a hash's bucket.
  @inline(__always)
  func prefetch(_ hash: UInt64) { CPU.prefetch(bucket(place(hash).bucket)) }
}

/// An entry of an index. It is valid until the index changes.
struct IndexEntry {
  fileprivate let slot: UnsafeMutablePointer<UInt64>

  /// Address of the record that the entry names.
  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }
}

extension HashIndex {
  /// Lets an entry name another record of its key. The caller has called ``makeUnique(_:)``.
  @inline(__always)
  mutating func replace(_ entry: IndexEntry, with address: Address) {
    assert(entry.slot.pointee != 0, "an entry is changed that was removed")
    assert(!Self.isLink(address.rawValue), "a changed entry looks like a link")
    entry.slot.pointee = entry.slot.pointee & ~Address.mask | address.rawValue
  }

  /// Removes an entry. The caller has called ``makeUnique(_:)``.
  @inline(__always)
  mutating func remove(_ entry: IndexEntry) {
    assert(entry.slot.pointee != 0, "an entry is removed twice")
    entry.slot.pointee = 0
    removeFromCount()
  }

  /// Changes the entry of one record to name another address.
  ///
  /// - Returns: whether the entry existed.
  mutating func move(_ old: Address, to new: Address, _ hash: UInt64) -> Bool {
    makeUnique(hash)
    var probe = candidates(hash)
    while let entry = probe.next(self) {
      guard entry.address == old else { continue }
      replace(entry, with: new)
      return true
    }
    return false
  }
}

/// Iterator over the entries that may belong to a hash.
struct Probe {
  private var bucket: UnsafeMutablePointer<UInt64>
  /// A byte for each slot of the bucket, with a bit set if the slot has the tag and was not looked
  /// at yet.
  private var candidates: UInt64
  private let tag: UInt16

  @inline(__always)
  init(bucket: UnsafeMutablePointer<UInt64>, tag: UInt64) {
    self.bucket = bucket
    self.tag = UInt16(truncatingIfNeeded: tag)
    candidates = CPU.slots(in: bucket, tagged: self.tag)
  }

  /// Returns the next entry with the tag; nil when there are no more.
  @inline(__always)
  fileprivate mutating func next<Index: ProbedIndex & ~Copyable>(
    _ index: borrowing Index
  ) -> IndexEntry? {
    while true {
      while candidates != 0 {
        let position = candidates.trailingZeroBitCount &>> 3
        candidates &= candidates &- 1
        let slot = bucket[position]
        // Free slots and links look like entries with the tag 0.
        if slot != 0, !HashIndex.isLink(slot) { return IndexEntry(slot: bucket + position) }
      }
      let last = bucket[HashIndex.slotsPerBucket &- 1]
      guard HashIndex.isLink(last) else { return nil }
      bucket = index.overflowBucket(HashIndex.linkTarget(last))
      candidates = CPU.slots(in: bucket, tagged: tag)
    }
  }
}
