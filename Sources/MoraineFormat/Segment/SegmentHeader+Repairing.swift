extension SegmentHeader {
  private static let checksumOffset = 124

  /// Reads a header in which one byte is wrong, outside the dictionary. It searches for the change
  /// of one byte that makes the checksum right.
  ///
  /// A checksum is linear: the effect of a change depends on the change and its place alone. Some
  /// 33,000 changes are tried against 32 bits. So of the damaged headers with more than one wrong
  /// byte, one in 130,000 is "repaired" wrongly: the caller must check that records agree.
  ///
  /// - Returns: nil when there is no such byte, or when the changed header is not valid.
  package init?(repairing bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= Self.fixedLength else { return nil }
    for length in Self.possibleLengths(bytes) where length <= bytes.count {
      var copy = [UInt8](bytes[..<length])
      guard Self.repair(&copy) else { continue }
      do {
        self = try copy.withUnsafeBytes { try SegmentHeader(decoding: $0) }
        return
      } catch {
        // The header is not valid: another change is the right one.
        continue
      }
    }
    return nil
  }

  /// Returns the header's length as its length field states it, and as the dictionary's length
  /// implies it.
  private static func possibleLengths(_ bytes: UnsafeRawBufferPointer) -> [Int] {
    let claim = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
    let dictionary = Int(
      UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 100, as: UInt32.self)))
    let derived = (fixedLength + min(dictionary, dictionaryLimit) + 7) & ~7
    return (claim == derived ? [claim] : [claim, derived]).filter {
      $0 >= fixedLength && $0 <= fixedLength + dictionaryLimit && $0 % 8 == 0
    }
  }

  private static func repair(_ bytes: inout [UInt8]) -> Bool {
    let stored = bytes[checksumOffset..<fixedLength].reversed().reduce(UInt32(0)) {
      $0 << 8 | UInt32($1)
    }
    let computed = Checksum.of(Array(bytes[..<checksumOffset] + bytes[fixedLength...]))
    let wanted = stored ^ computed
    // The wrong byte is one of the checksum itself.
    if (0..<4).contains(where: { wanted & ~(0xFF << (8 * $0)) == 0 }) {
      for place in 0..<4 {
        bytes[checksumOffset + place] = UInt8(truncatingIfNeeded: computed >> (8 * place))
      }
      return true
    }
    // How a change of each bit of a byte changes the checksum, given the bytes that follow it.
    var effects = (0..<8).map { Checksum.effect(ofBit: $0, before: bytes.count - fixedLength) }
    for place in (0..<checksumOffset).reversed() {
      for change in 1..<256 {
        let effect = effects.indices.reduce(UInt32(0)) { sum, bit in
          change >> bit & 1 == 0 ? sum : sum ^ effects[bit]
        }
        guard effect == wanted else { continue }
        bytes[place] ^= UInt8(change)
        return true
      }
      effects = effects.map { Checksum.effect($0, before: 1) }
    }
    return false
  }
}
