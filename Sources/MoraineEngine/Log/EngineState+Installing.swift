import MoraineFormat

extension EngineState {
  /// Makes the index, the liveness and the digest say what a record says.
  ///
  /// - Parameter existing: the key's entry so far.
  @inline(__always)
  mutating func install(
    put address: Address, length: Int, sequence: UInt64, hash: UInt64,
    over existing: Replaceable?
  ) {
    let size = UInt64(truncatingIfNeeded: aligned(length))
    if let existing {
      retire(existing, hash: hash)
      existing.slot.pointee = existing.slot.pointee & ~Address.mask | address.rawValue
    } else {
      index.insert(hash, address, rehashing: table)
    }
    table[address.slot].liveBytes &+= size
    liveBytes &+= size
    digest.add(hash: hash, sequence: sequence)
  }

  @inline(__always)
  mutating func uninstall(
    _ existing: Replaceable, hash: UInt64
  ) {
    retire(existing, hash: hash)
    index.remove(existing.slot)
  }

  /// The record that an entry names is no longer live.
  @inline(__always)
  private mutating func retire(_ old: Replaceable, hash: UInt64) {
    let size = UInt64(truncatingIfNeeded: aligned(old.length))
    table[old.address.slot].liveBytes &-= size
    liveBytes &-= size
    digest.remove(hash: hash, sequence: old.sequence)
  }
}
