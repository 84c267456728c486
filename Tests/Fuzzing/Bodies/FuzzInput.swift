/// Reads values from the beginning of an input. Past the end of the input it reads zeros.
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

  /// Returns the bytes that exist, at most `count`.
  mutating func take(_ count: Int) -> [UInt8] {
    let end = min(position + count, bytes.count)
    defer { position = end }
    return Array(bytes[position..<end])
  }

  mutating func rest() -> [UInt8] { take(bytes.count) }
}

/// Bits of a byte that select what a target does.
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

  /// Returns zero where there are too few bytes.
  func load<Integer: FixedWidthInteger>(_ type: Integer.Type, at offset: Int) -> Integer {
    guard offset + MemoryLayout<Integer>.size <= count else { return 0 }
    return withUnsafeBytes {
      Integer(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
  }

  /// Calls the body with a copy that ends exactly where its memory ends, so that AddressSanitizer
  /// detects a read past the end. The memory of an array is rounded up.
  func withExactBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result
  {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
    defer { copy.deallocate() }
    withUnsafeBytes { copy.copyMemory(from: $0) }
    return try body(UnsafeRawBufferPointer(copy))
  }
}
