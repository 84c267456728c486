package import MoraineEngine
import MoraineFormat

/// Raw bytes that a container gets, which need not be in memory as a whole.
package struct ContainerSource: Sendable {
  /// Calls its second argument once, with the bytes of a range. They are valid during the call
  /// only.
  package typealias Reading =
    @Sendable (Range<Int>, (UnsafeRawBufferPointer) -> Void) throws(StoreError) -> Void

  package let byteCount: Int
  fileprivate let read: Reading

  /// Creates a source.
  ///
  /// - Parameters:
  ///   - byteCount: the number of bytes.
  ///   - read: gives the same bytes in each call for the same range.
  package init(byteCount: Int, read: @escaping Reading) {
    precondition(
      (0...ArchiveLimits.containerBytes).contains(byteCount), "a container holds at most 4 GiB")
    (self.byteCount, self.read) = (byteCount, read)
  }
}

/// A writer of containers.
package struct ContainerWriter: Sendable {
  private let codec: ContainerHeader.Codec
  private let blockLength: Int

  /// - Parameters:
  ///   - codec: the compression.
  ///   - blockLength: the raw length of every block but the last; other lengths than the default
  ///     are for tests.
  package init(codec: ContainerHeader.Codec = .lz4, blockLength: Int = 1 << 20) {
    precondition(ArchiveLimits.blockBytes.contains(blockLength), "a block has another length")
    (self.codec, self.blockLength) = (codec, blockLength)
  }

  /// Returns a container of bytes that are in memory.
  package func container(_ raw: [UInt8]) -> [UInt8] {
    raw.withUnsafeBytes { container($0) }
  }

  /// Returns a container of bytes that are in memory.
  package func container(_ raw: UnsafeRawBufferPointer) -> [UInt8] {
    var bytes = ByteWriter()
    bytes.reserve(longestLength(raw.count))
    append(raw, to: &bytes)
    return bytes.bytes
  }

  /// Returns the length of the container of bytes that cannot be compressed.
  func longestLength(_ rawByteCount: Int) -> Int {
    let blocks = blockRanges(rawByteCount).count
    return ContainerHeader.headLength(blockCount: blocks) + rawByteCount
      + blocks * ContainerHeader.checksumLength
  }

  /// Appends a container of bytes that are in memory.
  func append(_ raw: UnsafeRawBufferPointer, to bytes: inout ByteWriter) {
    precondition(raw.count <= ArchiveLimits.containerBytes, "a container holds at most 4 GiB")
    let ranges = blockRanges(raw.count)
    let start = bytes.bytes.count
    // The table before the blocks has their lengths.
    bytes.appendZeros(ContainerHeader.headLength(blockCount: ranges.count))
    var lengths: [UInt32] = []
    for range in ranges {
      withStored(UnsafeRawBufferPointer(rebasing: raw[range])) { stored in
        bytes.append(contentsOf: stored)
        bytes.append(Checksum.of(stored))
        lengths.append(UInt32(stored.count))
      }
    }
    bytes.replace(at: start, with: header(raw.count, lengths).encoded())
  }

  /// Returns a container as the body of an object, without holding the bytes: they are read and
  /// compressed now, for the table, and again whenever the body is read.
  ///
  /// - Throws: the error of the source. The body throws `.corrupted` when the source gives other
  ///   bytes than it gave now.
  /// - Complexity: O(bytes) time, O(blocks) memory.
  package func body(of source: ContainerSource) throws(StoreError) -> ObjectBody {
    var plan: [BlockPlan] = []
    for range in blockRanges(source.byteCount) {
      try source.withBytes(range) { raw in
        withStored(raw) { stored in
          plan.append(
            BlockPlan(
              storedLength: UInt32(stored.count), isRaw: stored.count == raw.count,
              checksum: Checksum.of(stored)))
        }
      }
    }
    let header = header(source.byteCount, plan.map(\.storedLength))
    return ObjectBody(byteCount: header.byteCount) { [plan] visit throws(StoreError) in
      guard header.encoded().withUnsafeBytes({ visit($0) }) else { return }
      for (index, block) in plan.enumerated() {
        let range = header.rawRange(ofBlock: index)
        guard try emit(block, range, of: source, to: visit) else { return }
      }
    }
  }

  /// A block as the first pass has found it.
  private struct BlockPlan: Sendable {
    let storedLength: UInt32
    let isRaw: Bool
    let checksum: UInt32
  }

  /// Passes a block and its checksum to a visitor. Returns false when the visitor wants no more.
  private func emit(
    _ block: BlockPlan, _ range: Range<Int>, of source: ContainerSource,
    to visit: (UnsafeRawBufferPointer) -> Bool
  ) throws(StoreError) -> Bool {
    var (isSame, goesOn) = (false, false)
    try source.withBytes(range) { raw in
      withStored(raw, compressing: !block.isRaw) { stored in
        isSame =
          UInt32(stored.count) == block.storedLength && Checksum.of(stored) == block.checksum
        goesOn = isSame && visit(stored)
      }
    }
    guard isSame else {
      throw StoreError(
        .corrupted,
        "bytes \(range.lowerBound) to \(range.upperBound) of a segment changed while they were "
          + "archived")
    }
    return goesOn && withUnsafeBytes(of: block.checksum.littleEndian) { visit($0) }
  }

  private func blockRanges(_ byteCount: Int) -> [Range<Int>] {
    stride(from: 0, to: byteCount, by: blockLength).map {
      $0..<min($0 + blockLength, byteCount)
    }
  }

  private func header(_ rawByteCount: Int, _ lengths: [UInt32]) -> ContainerHeader {
    ContainerHeader(
      codec: codec, blockLength: blockLength, rawByteCount: rawByteCount, storedLengths: lengths)
  }

  /// Calls the body with the stored form of a block. Each block has a compressor of its own: what a
  /// used compressor returns may depend on the blocks before, and both passes must agree.
  private func withStored(
    _ raw: UnsafeRawBufferPointer, compressing: Bool = true,
    _ body: (UnsafeRawBufferPointer) -> Void
  ) {
    guard codec == .lz4, compressing else { return body(raw) }
    var compressor = Compressor()
    body(compressor.compress(raw) ?? raw)
  }
}

extension ContainerSource {
  /// Calls the body once, with the bytes of a range.
  fileprivate func withBytes(
    _ range: Range<Int>, _ body: (UnsafeRawBufferPointer) -> Void
  ) throws(StoreError) {
    var calls = 0
    try read(range) { bytes in
      precondition(bytes.count == range.count, "a source gave another number of bytes")
      calls += 1
      body(bytes)
    }
    precondition(calls == 1, "a source gave its bytes \(calls) times")
  }
}
