/// The header of a segment, before its first record. Layout: `FileFormat.md`, "Segment header".
package struct SegmentHeader: Equatable, Sendable {
  package struct Flags: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    package static let compacted = Flags(rawValue: 1 << 0)
    package static let received = Flags(rawValue: 1 << 1)
    package static let encrypted = Flags(rawValue: 1 << 2)
    package static let hasDictionary = Flags(rawValue: 1 << 3)
    /// Compaction wrote the records in the order of keys: their sequence numbers do not rise.
    package static let clustered = Flags(rawValue: 1 << 16)
    /// Bits that a reader refuses when it does not know them.
    static let mustUnderstand: UInt32 = 0xFFFF_0000
    static let unknown = mustUnderstand & ~clustered.rawValue
  }

  /// The segment that the store appended to before this one.
  package struct Predecessor: Equatable, Sendable {
    package var number: UInt64
    package var lengthBytes: UInt64
    package var lastSequence: SequenceNumber

    package init(number: UInt64, lengthBytes: UInt64, lastSequence: SequenceNumber) {
      self.number = number
      self.lengthBytes = lengthBytes
      self.lastSequence = lastSequence
    }

    package static let none = Predecessor(number: 0, lengthBytes: 0, lastSequence: .none)
  }

  package static let fixedLength = 128
  package static let magic = Array("MORAINES".utf8)
  /// The longest dictionary, in bytes: LZ4 reaches no further back.
  package static let dictionaryLimit = 65_536

  package var storeID: StoreIdentifier
  package var epoch: UInt64
  package var number: SegmentNumber
  package var predecessor: Predecessor = .none
  package var generation: UInt64 = 0
  package var salt: UInt64
  package var createdMilliseconds: UInt64 = 0
  package var flags: Flags = []
  package var encryptionKeyID: UInt32 = 0
  package var dictionary: [UInt8] = []

  package init(storeID: StoreIdentifier, epoch: UInt64, number: SegmentNumber, salt: UInt64) {
    self.storeID = storeID
    self.epoch = epoch
    self.number = number
    self.salt = salt
  }

  /// Length of the header, and offset of the first record.
  package var headerLength: Int { (Self.fixedLength + dictionary.count + 7) & ~7 }

  /// In a segment that compaction wrote: the sequence number up to which no delete hides a record
  /// of the segment. 0 in other segments, and where the header does not say it.
  package var cleanedThrough: UInt64 {
    flags.contains(.compacted) ? predecessor.lastSequence.rawValue : 0
  }

  /// The value with which the checksum of every record in this segment begins.
  package var checksumSeed: Checksum {
    var writer = ByteWriter()
    writer.append(storeID)
    writer.append(epoch)
    writer.append(number.rawValue)
    writer.append(salt)
    return Checksum(Checksum.of(writer.bytes))
  }
}

extension SegmentHeader {
  package func encoded() -> [UInt8] {
    precondition(dictionary.count <= Self.dictionaryLimit, "the dictionary exceeds 64 KiB")
    precondition(
      flags.contains(.hasDictionary) == !dictionary.isEmpty,
      "the flag does not match the dictionary")
    precondition(
      flags.contains(.encrypted) || encryptionKeyID == 0, "an encryption key ID needs the flag")
    var writer = ByteWriter()
    writer.append(contentsOf: Self.magic)
    writer.append(formatVersion)
    writer.append(UInt16(0))
    writer.append(UInt32(headerLength))
    writer.append(storeID)
    writer.append(epoch)
    writer.append(number.rawValue)
    writer.append(predecessor.number)
    writer.append(predecessor.lengthBytes)
    writer.append(predecessor.lastSequence.rawValue)
    writer.append(generation)
    writer.append(salt)
    writer.append(createdMilliseconds)
    writer.append(flags.rawValue)
    writer.append(UInt32(dictionary.count))
    writer.append(encryptionKeyID)
    writer.appendZeros(16)
    var checksum = Checksum()
    writer.bytes.withUnsafeBytes { checksum.update($0) }
    let tail = dictionary + Array(repeating: 0, count: headerLength - 128 - dictionary.count)
    tail.withUnsafeBytes { checksum.update($0) }
    writer.append(checksum.value)
    writer.append(contentsOf: tail)
    return writer.bytes
  }

  /// Returns the number of bytes that ``init(decoding:)`` needs, as the first 128 bytes state it,
  /// so that a caller can read just those. The number is bounded, but no checksum has verified it
  /// yet.
  package static func claimedLength(_ bytes: UnsafeRawBufferPointer) throws(FormatError) -> Int {
    guard bytes.count >= fixedLength else {
      throw FormatError("the file is shorter than a segment header", at: UInt64(bytes.count))
    }
    let claim = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
    guard claim >= fixedLength, claim <= fixedLength + dictionaryLimit, claim % 8 == 0 else {
      throw FormatError("invalid header length \(claim)", at: 12)
    }
    return claim
  }

  /// Reads a header from the beginning of a segment.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    let claimedLength = try Self.claimedLength(bytes)
    guard bytes.count >= claimedLength else {
      throw FormatError("the file ends inside its header", at: UInt64(bytes.count))
    }
    var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[..<claimedLength]))
    let magic = try reader.take(8)
    guard magic.elementsEqual(Self.magic) else {
      throw FormatError("not a Moraine segment (wrong magic)", at: 0)
    }
    let version: UInt16 = try reader.read()
    let reserved: UInt16 = try reader.read()
    _ = try reader.read(UInt32.self)
    self.init(
      storeID: try reader.readIdentifier(), epoch: try reader.read(),
      number: SegmentNumber(rawValue: try reader.read()), salt: 0)
    predecessor = Predecessor(
      number: try reader.read(), lengthBytes: try reader.read(),
      lastSequence: SequenceNumber(rawValue: try reader.read()))
    generation = try reader.read()
    salt = try reader.read()
    createdMilliseconds = try reader.read()
    flags = Flags(rawValue: try reader.read())
    let dictionaryLength = Int(try reader.read(UInt32.self))
    encryptionKeyID = try reader.read()
    let reservedBytes = try reader.take(16)
    let stored: UInt32 = try reader.read()
    guard dictionaryLength <= reader.remaining else {
      throw FormatError("dictionary is longer than the header", at: 100)
    }
    dictionary = Array(try reader.take(dictionaryLength))
    try Self.verify(bytes, headerLength: claimedLength, stored: stored)
    guard version == formatVersion else {
      throw FormatError(newer: "format version \(version)", at: 8)
    }
    guard reserved == 0, reservedBytes.allSatisfy({ $0 == 0 }),
      flags.rawValue & Flags.unknown == 0
    else {
      throw FormatError(newer: "header flags that this version does not know", at: 96)
    }
    guard headerLength == claimedLength, flags.contains(.hasDictionary) == !dictionary.isEmpty,
      flags.contains(.encrypted) || encryptionKeyID == 0,
      flags.contains(.compacted) || !flags.contains(.clustered)
    else { throw FormatError("header fields contradict each other", at: 96) }
    // Recovery continues to count from this number.
    guard predecessor.lastSequence <= .max else {
      throw FormatError("invalid sequence number \(predecessor.lastSequence)", at: 64)
    }
    try reader.skipZeros(reader.remaining, "header padding")
  }

  private static func verify(
    _ bytes: UnsafeRawBufferPointer, headerLength: Int, stored: UInt32
  ) throws(FormatError) {
    var checksum = Checksum()
    checksum.update(UnsafeRawBufferPointer(rebasing: bytes[..<124]))
    checksum.update(UnsafeRawBufferPointer(rebasing: bytes[fixedLength..<headerLength]))
    guard checksum.value == stored else {
      throw FormatError("segment header checksum does not match", at: 0)
    }
  }
}

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
