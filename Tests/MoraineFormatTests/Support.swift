import MoraineFormat
import Testing

/// SplitMix64: the same numbers in every run, so that a failure can be repeated.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var x = state
    x = (x ^ (x >> 30)) &* 0xBF58_476D_1CE4_E5B9
    x = (x ^ (x >> 27)) &* 0x94D0_49BB_1331_11EB
    return x ^ (x >> 31)
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }
}

/// Changes of one byte: any one bit flipped, or all of them.
let flips: [UInt8] = (0..<8).map { 1 << $0 } + [0xFF]

/// Calls `body` with `bytes` changed in one byte, for every byte of `range` and every flip.
func forEachFlip(
  of bytes: [UInt8], in range: Range<Int>, _ body: (_ damaged: [UInt8], _ place: Int) throws -> Void
) rethrows {
  var bytes = bytes
  for place in range {
    for flip in flips {
      bytes[place] ^= flip
      try body(bytes, place)
      bytes[place] ^= flip
    }
  }
}

/// The kind of the ``FormatError`` that the call throws, or nil when it throws none.
func errorKind(of call: () throws -> Void) throws -> FormatError.Kind? {
  do {
    try call()
    return nil
  } catch let error as FormatError {
    return error.kind
  }
}

extension [UInt8] {
  /// Stores an integer in the byte order of the format.
  mutating func put(_ integer: some FixedWidthInteger, at offset: Int) {
    Swift.withUnsafeBytes(of: integer.littleEndian) { raw in
      for (index, byte) in raw.enumerated() { self[offset + index] = byte }
    }
  }
}
