import Moraine

/// A digest of live records in any order, that another program can compute in a few lines: the sum,
/// modulo 2^64, of FNV-1a of each key's length (8 bytes, little endian), the key and the value.
struct DriveDigest {
  private var count = 0
  private var sum: UInt64 = 0

  mutating func add(_ entry: Entry) {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    func take(_ bytes: some Sequence<UInt8>) {
      for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }
    withUnsafeBytes(of: UInt64(entry.key.bytes.count).littleEndian) { take($0) }
    take(entry.key.bytes)
    take(entry.value)
    sum &+= hash
    count += 1
  }

  var text: String {
    let digits = String(sum, radix: 16)
    return "count \(count) " + String(repeating: "0", count: 16 - digits.count) + digits
  }
}
