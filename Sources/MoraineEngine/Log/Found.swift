import MoraineFormat

/// An index entry, and the record that it names. The bytes are valid until the next read.
struct Found {
  let slot: UnsafeMutablePointer<UInt64>
  let record: RecordReference

  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }

  /// What must be known of the record when another one takes its place.
  @inline(__always)
  var replaceable: Replaceable {
    Replaceable(slot: slot, length: record.header.length, sequence: record.header.sequence)
  }
}

/// An index entry that another record will take, or that will go.
struct Replaceable {
  let slot: UnsafeMutablePointer<UInt64>
  let length: Int
  let sequence: UInt64

  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }
}
