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
      flags.rawValue & Flags.mustUnderstand == 0
    else {
      throw FormatError(newer: "header flags that this version does not know", at: 96)
    }
    guard headerLength == claimedLength, flags.contains(.hasDictionary) == !dictionary.isEmpty,
      flags.contains(.encrypted) || encryptionKeyID == 0
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
