/// The secret key of a store's hash function. An attacker who does not know it cannot choose keys
/// that all fall into one bucket.
public struct HashKey: Equatable, Sendable {
  public let k0: UInt64
  public let k1: UInt64

  public init(k0: UInt64, k1: UInt64) {
    self.k0 = k0
    self.k1 = k1
  }
}

/// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012).
///
/// The keyspace is mixed into the key of the hash, so that the same bytes in two keyspaces are two
/// independent keys. Complexity: O(key length).
public enum KeyHash {
  @inlinable
  public static func hash(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16, with secret: HashKey
  ) -> UInt64 {
    var state = SipState(k0: secret.k0 ^ UInt64(keyspace), k1: secret.k1)
    let count = key.count
    var offset = 0
    while offset &+ 8 <= count {
      let word = key.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      state.compress(UInt64(littleEndian: word))
      offset &+= 8
    }
    var last = UInt64(truncatingIfNeeded: count) << 56
    var shift: UInt64 = 0
    while offset < count {
      last |= UInt64(key[offset]) << shift
      shift &+= 8
      offset &+= 1
    }
    state.compress(last)
    return state.finish()
  }
}

@frozen
public struct SipState {
  @usableFromInline var v0: UInt64
  @usableFromInline var v1: UInt64
  @usableFromInline var v2: UInt64
  @usableFromInline var v3: UInt64

  @inlinable @inline(__always)
  init(k0: UInt64, k1: UInt64) {
    v0 = k0 ^ 0x736f_6d65_7073_6575
    v1 = k1 ^ 0x646f_7261_6e64_6f6d
    v2 = k0 ^ 0x6c79_6765_6e65_7261
    v3 = k1 ^ 0x7465_6462_7974_6573
  }

  @inlinable @inline(__always)
  static func rotate(_ x: UInt64, _ by: UInt64) -> UInt64 { (x &<< by) | (x &>> (64 &- by)) }

  @inlinable @inline(__always)
  mutating func round() {
    v0 &+= v1
    v1 = Self.rotate(v1, 13) ^ v0
    v0 = Self.rotate(v0, 32)
    v2 &+= v3
    v3 = Self.rotate(v3, 16) ^ v2
    v0 &+= v3
    v3 = Self.rotate(v3, 21) ^ v0
    v2 &+= v1
    v1 = Self.rotate(v1, 17) ^ v2
    v2 = Self.rotate(v2, 32)
  }

  @inlinable @inline(__always)
  mutating func compress(_ word: UInt64) {
    v3 ^= word
    round()
    v0 ^= word
  }

  @inlinable @inline(__always)
  mutating func finish() -> UInt64 {
    v2 ^= 0xff
    round()
    round()
    round()
    return v0 ^ v1 ^ v2 ^ v3
  }
}
