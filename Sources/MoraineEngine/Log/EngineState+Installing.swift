import MoraineFormat

extension EngineState {
  /// Makes the index, the liveness and the digest say what a record says.
  ///
  /// - Parameter existing: the key's entry so far.
  @inline(__always)
  mutating func install(
    put address: Address, length: Int, sequence: UInt64, hash: UInt64, keyspace: UInt16,
    over existing: Replaceable?
  ) {
    let size = UInt64(truncatingIfNeeded: aligned(length))
    if let existing {
      retire(existing, hash: hash, keyspace: keyspace)
      existing.slot.pointee = existing.slot.pointee & ~Address.mask | address.rawValue
    } else {
      index.insert(hash, address, rehashing: table)
    }
    table[address.slot].liveBytes &+= size
    liveBytes &+= size
    if keyspace != 0 { keyspaces.gain(keyspace, bytes: size) }
    let mixed = StateDigest.of(hash: hash, sequence: sequence)
    digest.add(mixed)
    table[address.slot].digest.add(mixed)
  }

  @inline(__always)
  mutating func uninstall(
    _ existing: Replaceable, hash: UInt64, keyspace: UInt16
  ) {
    retire(existing, hash: hash, keyspace: keyspace)
    index.remove(existing.slot)
  }

  /// The record that an entry names is no longer live.
  @inline(__always)
  private mutating func retire(_ old: Replaceable, hash: UInt64, keyspace: UInt16) {
    let size = UInt64(truncatingIfNeeded: aligned(old.length))
    table[old.address.slot].liveBytes &-= size
    liveBytes &-= size
    if keyspace != 0 { keyspaces.lose(keyspace, bytes: size) }
    let mixed = StateDigest.of(hash: hash, sequence: old.sequence)
    digest.remove(mixed)
    table[old.address.slot].digest.remove(mixed)
  }
}
