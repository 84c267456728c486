extension Checksum {
  /// For each high byte of a state, the low byte of which step made it; each occurs once, so a step
  /// can be taken back.
  private static let steps: (forward: [UInt32], backward: [UInt8]) = {
    let polynomial: UInt32 = 0x82F6_3B78
    let forward = (0..<256 as Range<UInt32>).map { index in
      (0..<8).reduce(index) { value, _ in value >> 1 ^ (value & 1 == 0 ? 0 : polynomial) }
    }
    var backward = [UInt8](repeating: 0, count: 256)
    for (index, value) in forward.enumerated() { backward[Int(value >> 24)] = UInt8(index) }
    return (forward, backward)
  }()

  /// The checksum that became this one when these bytes were added to it: a CRC with given bytes is
  /// a one-to-one map of its states.
  ///
  /// Source: M. Stigge, H. Plötz, W. Müller, J.-P. Redlich, "Reversing CRC: Theory and Practice",
  /// 2006, section 4.2.
  ///
  /// - Complexity: O(bytes), some nanoseconds each.
  public func before(_ bytes: some BidirectionalCollection<UInt8>) -> Checksum {
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
  /// What changing a bit of a byte does to the checksum, with so many bytes behind it.
  static func effect(ofBit bit: Int, before count: Int) -> UInt32 {
    effect(steps.forward[1 << bit], before: count)
  }

  /// The same of a change whose effect right behind it is known.
  static func effect(_ effect: UInt32, before count: Int) -> UInt32 {
    (0..<count).reduce(effect) { effect, _ in
      steps.forward[Int(effect & 0xFF)] ^ (effect >> 8)
    }
  }
}

extension RecordHeader {
  /// What the checksums of a segment begin with, if the record here is whole: for a segment whose
  /// header is not.
  ///
  /// - Parameters:
  ///   - base: the record's first byte.
  ///   - length: its length, at least 20; that many bytes are readable.
  ///   - offset: its place in the file.
  /// - Complexity: O(length).
  public static func seed(
    ofRecord base: UnsafeRawPointer, length: Int, at offset: UInt64
  ) -> Checksum {
    let body = UnsafeRawBufferPointer(start: base + 8, count: length - 8)
    var place = ByteWriter()
    place.append(offset)
    place.append(UInt32(truncatingIfNeeded: length))
    return Checksum(storedChecksum(at: base)).before(body).before(place.bytes)
  }
}
