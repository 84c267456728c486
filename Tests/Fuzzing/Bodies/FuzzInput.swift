/// Takes an input apart from its beginning. Beyond its end it reads as zeros.
struct FuzzInput {
  private let bytes: [UInt8]
  private var position = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  var isAtEnd: Bool { position >= bytes.count }

  mutating func byte() -> UInt8 {
    guard position < bytes.count else { return 0 }
    defer { position += 1 }
    return bytes[position]
  }

  mutating func integer(byteCount: Int) -> Int {
    (0..<byteCount).reduce(0) { result, index in result | Int(byte()) << (8 * index) }
  }

  /// As many as there are, at most `count`.
  mutating func take(_ count: Int) -> [UInt8] {
    let end = min(position + count, bytes.count)
    defer { position = end }
    return Array(bytes[position..<end])
  }

  mutating func rest() -> [UInt8] { take(bytes.count) }
}

/// Bits of a byte that say what a target does.
struct FuzzFlags: OptionSet {
  let rawValue: UInt8

  init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  init(_ input: inout FuzzInput) {
    rawValue = input.byte()
  }
}

extension [UInt8] {
  mutating func store(_ integer: some FixedWidthInteger, at offset: Int) {
    Swift.withUnsafeBytes(of: integer.littleEndian) { raw in
      guard offset + raw.count <= count else { return }
      for (index, byte) in raw.enumerated() { self[offset + index] = byte }
    }
  }

  /// Zero where there are too few bytes.
  func load<Integer: FixedWidthInteger>(_ type: Integer.Type, at offset: Int) -> Integer {
    guard offset + MemoryLayout<Integer>.size <= count else { return 0 }
    return withUnsafeBytes {
      Integer(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
  }

  /// Lends a copy that ends where its memory does, so that AddressSanitizer sees a read behind it:
  /// an array's own memory is rounded up.
  func withExactBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result
  {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
    defer { copy.deallocate() }
    withUnsafeBytes { copy.copyMemory(from: $0) }
    return try body(UnsafeRawBufferPointer(copy))
  }
}
