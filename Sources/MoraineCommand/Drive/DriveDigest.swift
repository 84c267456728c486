import Moraine

/// A digest of live records that does not depend on their order, and that another program can
/// compute in a few lines: the sum, modulo 2^64, of FNV-1a of each key's length (8 bytes, little
/// endian), the key and the value.
struct DriveDigest {
  private var count = 0
  private var sum: UInt64 = 0

  mutating func add(_ entry: Store.Entry) { add(key: entry.key.bytes, value: entry.value) }

  mutating func add(key: [UInt8], value: [UInt8]) {
    sum &+= Self.hash(key, value)
    count += 1
  }

  mutating func remove(key: [UInt8], value: [UInt8]) {
    sum &-= Self.hash(key, value)
    count -= 1
  }

  private static func hash(_ key: [UInt8], _ value: [UInt8]) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    func take(_ bytes: some Sequence<UInt8>) {
      for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }
    withUnsafeBytes(of: UInt64(key.count).littleEndian) { take($0) }
    take(key)
    take(value)
    return hash
  }

  var text: String {
    let digits = String(sum, radix: 16)
    return "count \(count) " + String(repeating: "0", count: 16 - digits.count) + digits
  }
}
