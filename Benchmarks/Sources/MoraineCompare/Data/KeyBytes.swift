/// A key of up to 24 bytes that is made without an allocation, as a C program makes it.
struct KeyBytes: Sendable {
  private var first: UInt64
  private var second: UInt64
  private var third: UInt64
  let count: Int

  /// Makes a key of hexadecimal digits. The keys have the order of the numbers.
  ///
  /// - Parameter count: 16, or 24 with eight digits in front that depend on the number.
  @inline(__always)
  init(_ number: Int, count: Int) {
    let high = Self.digits(UInt32(truncatingIfNeeded: number >> 32))
    let low = Self.digits(UInt32(truncatingIfNeeded: number))
    self.count = count
    if count == 16 {
      (first, second, third) = (high, low, 0)
    } else {
      let mixed = UInt64(truncatingIfNeeded: number) &* 0x9E37_79B9_7F4A_7C15
      (first, second, third) = (Self.digits(UInt32(truncatingIfNeeded: mixed >> 32)), high, low)
    }
  }

  /// Returns eight digits, the highest in the lowest byte, without a branch.
  @inline(__always)
  private static func digits(_ number: UInt32) -> UInt64 {
    var spread = UInt64(number)
    spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF
    spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF
    spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F
    let isLetter = ((spread + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
    return (spread + 0x3030_3030_3030_3030 + isLetter * 39).byteSwapped
  }

  /// A key between two stored keys: its last byte is no digit.
  var absent: KeyBytes {
    var key = self
    if count == 16 { key.second |= 0x80 << 56 } else { key.third |= 0x80 << 56 }
    return key
  }

  @inline(__always)
  func withBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try withUnsafePointer(to: self) { (pointer) throws(Failure) in
      try body(UnsafeRawBufferPointer(start: pointer, count: count))
    }
  }
}
