public import CMoraineShims

/// CRC-32C, as `FileFormat.md` defines it.
@frozen
public struct Checksum: Equatable, Sendable {
  public var value: UInt32

  @inlinable
  public init(_ value: UInt32 = 0) {
    self.value = value
  }

  @inlinable
  public mutating func update(_ bytes: UnsafeRawBufferPointer) {
    guard let base = bytes.baseAddress else { return }
    value = moraine_crc32c(value, base, bytes.count)
  }

  @inlinable
  public mutating func update(_ integer: UInt64) {
    withUnsafeBytes(of: integer.littleEndian) { update($0) }
  }

  package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var checksum = Checksum()
    checksum.update(bytes)
    return checksum.value
  }

  package static func of(_ bytes: [UInt8]) -> UInt32 {
    bytes.withUnsafeBytes { of($0) }
  }
}

extension Checksum {
  /// The CRC's table and its inverse. The inverse maps the high byte of a table entry to the
  /// entry's index. Each high byte occurs once, so a step of the CRC can be undone.
  private static let steps: (forward: [UInt32], backward: [UInt8]) = {
    let polynomial: UInt32 = 0x82F6_3B78
    let forward = (0..<256 as Range<UInt32>).map { index in
      (0..<8).reduce(index) { value, _ in value >> 1 ^ (value & 1 == 0 ? 0 : polynomial) }
    }
    var backward = [UInt8](repeating: 0, count: 256)
    for (index, value) in forward.enumerated() { backward[Int(value >> 24)] = UInt8(index) }
    return (forward, backward)
  }()

  /// Returns the checksum that becomes this one when `bytes` are added to it. For given bytes a CRC
  /// is a one-to-one map of its states.
  ///
  /// Source: M. Stigge, H. Plötz, W. Müller, J.-P. Redlich, "Reversing CRC: Theory and Practice",
  /// 2006, section 4.2.
  ///
  /// - Complexity: O(bytes), some nanoseconds for each byte.
  package func before(_ bytes: some BidirectionalCollection<UInt8>) -> Checksum {
    let (forward, backward) = Self.steps
    var state = ~value
    for byte in bytes.reversed() {
      let index = backward[Int(state >> 24)]
      state = (state ^ forward[Int(index)]) << 8 | UInt32(index ^ byte)
    }
    return Checksum(~state)
  }
}

extension Checksum {
  /// Returns how the checksum changes when a bit of a byte changes and `count` bytes follow that
  /// byte.
  static func effect(ofBit bit: Int, before count: Int) -> UInt32 {
    effect(steps.forward[1 << bit], before: count)
  }

  /// Returns how the checksum changes after `count` more bytes, where `effect` is its change
  /// directly after the changed byte.
  static func effect(_ effect: UInt32, before count: Int) -> UInt32 {
    (0..<count).reduce(effect) { effect, _ in
      steps.forward[Int(effect & 0xFF)] ^ (effect >> 8)
    }
  }
}

extension RecordHeader {
  /// Returns the value with which the checksums of a segment begin, computed from an undamaged
  /// record. It is for a segment whose header is damaged.
  ///
  /// - Parameters:
  ///   - base: the record's first byte.
  ///   - length: the record's length, at least 20; that many bytes are readable.
  ///   - offset: the record's offset in the file.
  /// - Complexity: O(length).
  package static func seed(
    ofRecord base: UnsafeRawPointer, length: Int, at offset: UInt64
  ) -> Checksum {
    let body = UnsafeRawBufferPointer(start: base + 8, count: length - 8)
    var place = ByteWriter()
    place.append(offset)
    place.append(UInt32(truncatingIfNeeded: length))
    return Checksum(storedChecksum(at: base)).before(body).before(place.bytes)
  }
}
