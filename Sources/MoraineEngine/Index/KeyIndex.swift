/// An index of live records: it maps the hash of a key to the addresses at which the key's record
/// may be.
///
/// The protocol is what the rest of the engine knows of an index. Slots, buckets, tags and levels
/// stay in this folder. An index stores no keys: the caller reads the record at a candidate's
/// address, and compares its key. It implements the look-ups of the store's own index and those of
/// a snapshot with the same code: ``HashIndex`` and its frozen copy ``FrozenIndex`` implement it.
/// The index in the order of the keys, ``TreeIndex``, has other operations.
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
