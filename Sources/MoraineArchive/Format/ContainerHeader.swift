package import MoraineFormat

/// The header and the table of a container: bytes in blocks, each of which can be read alone.
/// Layout: `ArchiveFormat.md`, "Container".
package struct ContainerHeader: Equatable, Sendable {
  /// The compression of the blocks.
  package enum Codec: UInt8, Sendable {
    case none = 0
    /// Each block is one LZ4 block, or stored raw.
    case lz4 = 1
  }

  static let magic = Array("MORAINEO".utf8)
  /// Length of the part before the table.
  package static let fixedLength = 24
  /// Length of a checksum.
  static let checksumLength = 4

  package let codec: Codec
  /// The raw length of every block but the last.
  package let blockLength: Int
  /// The raw length of all blocks.
  package let rawByteCount: Int
  /// The stored length of each block, without its checksum.
  package let storedLengths: [UInt32]
  /// Offset of each block in the container, and the end of the last one.
  private let offsets: [Int]

  init(codec: Codec, blockLength: Int, rawByteCount: Int, storedLengths: [UInt32]) {
    precondition(ArchiveLimits.blockBytes.contains(blockLength), "a block has another length")
    precondition(
      storedLengths.count == Self.blockCount(rawByteCount, blockLength),
      "the table has another number of blocks")
    (self.codec, self.blockLength) = (codec, blockLength)
    (self.rawByteCount, self.storedLengths) = (rawByteCount, storedLengths)
    var offset = Self.headLength(blockCount: storedLengths.count)
    var offsets = [offset]
    offsets.reserveCapacity(storedLengths.count + 1)
    for length in storedLengths {
      offset += Int(length) + Self.checksumLength
      offsets.append(offset)
    }
    self.offsets = offsets
  }

  private static func blockCount(_ rawByteCount: Int, _ blockLength: Int) -> Int {
    rawByteCount / blockLength + (rawByteCount % blockLength == 0 ? 0 : 1)
  }

  /// Returns the length of header, table and their checksum.
  static func headLength(blockCount: Int) -> Int {
    fixedLength + 4 * blockCount + checksumLength
  }
}

extension ContainerHeader {
  /// Length of header, table and their checksum: the offset of the first block.
  package var headLength: Int { Self.headLength(blockCount: blockCount) }
  /// Length of the whole container.
  package var byteCount: Int { offsets[blockCount] }
  package var blockCount: Int { storedLengths.count }

  /// Returns the raw bytes that a block holds.
  package func rawRange(ofBlock index: Int) -> Range<Int> {
    precondition(storedLengths.indices.contains(index), "the container has no such block")
    let start = index * blockLength
    return start..<min(start + blockLength, rawByteCount)
  }

  /// Returns the bytes of the container that a block takes, with its checksum.
  package func storedRange(ofBlock index: Int) -> Range<Int> {
    precondition(storedLengths.indices.contains(index), "the container has no such block")
    return offsets[index]..<offsets[index + 1]
  }

  /// Returns the blocks that hold a range of raw bytes.
  package func blocks(holding raw: Range<Int>) -> Range<Int> {
    precondition(raw.lowerBound >= 0 && raw.upperBound <= rawByteCount, "bytes after the end")
    let first = raw.lowerBound / blockLength
    return first..<(raw.isEmpty ? first : (raw.upperBound - 1) / blockLength + 1)
  }

  /// Returns the bytes of the container that adjacent blocks take: one request reads them.
  package func storedRange(ofBlocks blocks: Range<Int>) -> Range<Int> {
    precondition(blocks.lowerBound >= 0 && blocks.upperBound <= blockCount, "no such blocks")
    return offsets[blocks.lowerBound]..<offsets[blocks.upperBound]
  }

  /// Whether a block is stored without compression.
  func isRaw(_ index: Int) -> Bool { Int(storedLengths[index]) == rawRange(ofBlock: index).count }
}

extension ContainerHeader {
  /// Returns the bytes before the first block.
  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.reserve(headLength)
    writer.append(contentsOf: Self.magic)
    writer.append(ArchiveLimits.version)
    writer.append(codec.rawValue)
    writer.append(UInt8(0))  // encryption
    writer.append(UInt32(blockLength))
    writer.append(UInt64(rawByteCount))
    for length in storedLengths { writer.append(length) }
    writer.append(Checksum.of(writer.bytes))
    assert(writer.bytes.count == headLength, "the layout of a container changed")
    return writer.bytes
  }

  /// Returns the number of bytes that ``init(decoding:at:)`` needs, as the first 24 bytes state it,
  /// so that a caller can read just those. The number is at most 4 MiB and 28 bytes, but no
  /// checksum has verified it yet.
  ///
  /// - Parameter start: the offset of the container in its object.
  package static func claimedHeadLength(
    _ bytes: UnsafeRawBufferPointer, at start: UInt64 = 0
  ) throws(FormatError) -> Int {
    guard bytes.count >= fixedLength else {
      throw FormatError("the object is shorter than a container", at: start + UInt64(bytes.count))
    }
    guard bytes.starts(with: magic) else {
      throw FormatError("not a container (wrong magic)", at: start)
    }
    let blockLength = bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)
    let rawByteCount = bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
    guard let block = Int(exactly: UInt32(littleEndian: blockLength)),
      ArchiveLimits.blockBytes.contains(block)
    else { throw FormatError("invalid block length of a container", at: start + 12) }
    guard let raw = Int(exactly: UInt64(littleEndian: rawByteCount)),
      raw <= ArchiveLimits.containerBytes
    else { throw FormatError("invalid raw length of a container", at: start + 16) }
    return headLength(blockCount: blockCount(raw, block))
  }

  /// Reads header and table from the beginning of a container. The blocks may be missing.
  ///
  /// The checksum is verified before the version and the codec.
  ///
  /// - Parameter start: the offset of the container in its object, for errors.
  package init(
    decoding bytes: UnsafeRawBufferPointer, at start: UInt64 = 0
  ) throws(FormatError) {
    let headLength = try Self.claimedHeadLength(bytes, at: start)
    guard bytes.count >= headLength else {
      throw FormatError(
        "the object ends inside the table of a container", at: start + UInt64(bytes.count))
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(headLength - Self.checksumLength)])
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError(
        "the checksum of a container's table does not match", at: start + UInt64(body.count))
    }
    var reader = ByteReader(body, fileOffset: start)
    _ = try reader.take(Self.magic.count)
    let version: UInt16 = try reader.read()
    let codecByte: UInt8 = try reader.read()
    let encryption: UInt8 = try reader.read()
    guard version == ArchiveLimits.version else {
      throw FormatError(newer: "version \(version) of a container", at: start + 8)
    }
    guard let codec = Codec(rawValue: codecByte) else {
      throw FormatError(newer: "codec \(codecByte) of a container", at: start + 10)
    }
    guard encryption == 0 else {
      throw FormatError(newer: "encryption \(encryption) of a container", at: start + 11)
    }
    let blockLength = Int(try reader.read(UInt32.self))
    let rawByteCount = Int(try reader.read(UInt64.self))
    let count = reader.remaining / 4
    var lengths: [UInt32] = []
    lengths.reserveCapacity(count)
    for index in 0..<count {
      let raw = min(blockLength, rawByteCount - index * blockLength)
      lengths.append(try Self.readLength(&reader, codec, raw: raw))
    }
    self.init(
      codec: codec, blockLength: blockLength, rawByteCount: rawByteCount, storedLengths: lengths)
  }

  /// Reads the stored length of a block. No block is longer than its raw bytes, or so short that it
  /// could not be decompressed to them.
  private static func readLength(
    _ reader: inout ByteReader, _ codec: Codec, raw: Int
  ) throws(FormatError) -> UInt32 {
    let start = reader.offset
    let stored: UInt32 = try reader.read()
    let isPossible =
      Int(stored) == raw
      || codec == .lz4 && stored > 0 && Int(stored) < raw
        && raw <= StoreLimits.rawLengthBound(stored: Int(stored))
    guard isPossible else {
      throw FormatError("invalid stored length \(stored) of a block", at: start)
    }
    return stored
  }
}
