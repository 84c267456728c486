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
