package import MoraineFormat

/// A reader of the blocks of a container, one at a time.
package struct ContainerReader: Sendable {
  package let header: ContainerHeader
  /// The offset of the container in its object, for errors.
  private let start: UInt64

  package init(_ header: ContainerHeader, at start: UInt64 = 0) {
    (self.header, self.start) = (header, start)
  }

  /// Reads header and table of a container that is in memory as a whole.
  ///
  /// - Throws: when the container has another length than its table says.
  package init(
    whole bytes: UnsafeRawBufferPointer, at start: UInt64 = 0
  ) throws(FormatError) {
    self.init(try ContainerHeader(decoding: bytes, at: start), at: start)
    guard bytes.count == header.byteCount else {
      throw FormatError(
        "the container has \(bytes.count) bytes, and its table says \(header.byteCount)",
        at: start + UInt64(min(bytes.count, header.byteCount)))
    }
  }

  /// Reads one block.
  ///
  /// - Parameters:
  ///   - stored: the bytes of ``ContainerHeader/storedRange(ofBlock:)``.
  ///   - target: gets the raw bytes; as long as ``ContainerHeader/rawRange(ofBlock:)``.
  package func readBlock(
    _ index: Int, from stored: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
  ) throws(FormatError) {
    let place = header.storedRange(ofBlock: index)
    let rawCount = header.rawRange(ofBlock: index).count
    precondition(target.count == rawCount, "the target has another length than the block")
    let offset = start + UInt64(place.lowerBound)
    guard stored.count == place.count else {
      throw FormatError(
        "block \(index) has \(stored.count) bytes instead of \(place.count)", at: offset)
    }
    let count = stored.count - ContainerHeader.checksumLength
    let bytes = UnsafeRawBufferPointer(rebasing: stored[..<count])
    let checksum = stored.loadUnaligned(fromByteOffset: count, as: UInt32.self)
    guard Checksum.of(bytes) == UInt32(littleEndian: checksum) else {
      throw FormatError("the checksum of block \(index) does not match", at: offset)
    }
    if header.isRaw(index) {
      target.copyMemory(from: bytes)
    } else if !Decompressor.decompress(bytes, into: target) {
      throw FormatError("block \(index) cannot be decompressed", at: offset)
    }
  }

  /// Returns the raw bytes of one block.
  package func block(
    _ index: Int, from stored: UnsafeRawBufferPointer
  ) throws(FormatError) -> [UInt8] {
    var raw = [UInt8](repeating: 0, count: header.rawRange(ofBlock: index).count)
    try raw.withUnsafeMutableBufferPointer { target throws(FormatError) in
      try readBlock(index, from: stored, into: UnsafeMutableRawBufferPointer(target))
    }
    return raw
  }

  /// Returns a range of raw bytes.
  ///
  /// - Parameter stored: the bytes of the blocks that hold the range, see
  ///   ``ContainerHeader/blocks(holding:)`` and ``ContainerHeader/storedRange(ofBlocks:)``.
  package func rawBytes(
    _ range: Range<Int>, from stored: UnsafeRawBufferPointer
  ) throws(FormatError) -> [UInt8] {
    let blocks = header.blocks(holding: range)
    let place = header.storedRange(ofBlocks: blocks)
    guard stored.count == place.count else {
      throw FormatError(
        "the object has \(stored.count) bytes of \(blocks.count) blocks instead of \(place.count)",
        at: start + UInt64(place.lowerBound + min(stored.count, place.count)))
    }
    var result: [UInt8] = []
    result.reserveCapacity(range.count)
    for index in blocks {
      let own = header.storedRange(ofBlock: index)
      let part = stored[(own.lowerBound - place.lowerBound)..<(own.upperBound - place.lowerBound)]
      let raw = try block(index, from: UnsafeRawBufferPointer(rebasing: part))
      let first = header.rawRange(ofBlock: index).lowerBound
      let wanted = range.clamped(to: first..<(first + raw.count))
      result.append(contentsOf: raw[(wanted.lowerBound - first)..<(wanted.upperBound - first)])
    }
    return result
  }

  /// Returns all raw bytes of a container that is in memory as a whole.
  ///
  /// - Parameters:
  ///   - limit: the most raw bytes that the caller accepts.
  ///   - start: the offset of the container in its object, for errors.
  package static func rawBytes(
    of bytes: UnsafeRawBufferPointer, limit: Int, at start: UInt64 = 0
  ) throws(FormatError) -> [UInt8] {
    let reader = try ContainerReader(whole: bytes, at: start)
    guard reader.header.rawByteCount <= limit else {
      throw FormatError(
        "the container has \(reader.header.rawByteCount) raw bytes, above the limit of \(limit)",
        at: start + 16)
    }
    let blocks = UnsafeRawBufferPointer(rebasing: bytes[reader.header.headLength...])
    return try reader.rawBytes(0..<reader.header.rawByteCount, from: blocks)
  }
}
