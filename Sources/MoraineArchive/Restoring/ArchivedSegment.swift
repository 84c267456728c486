import MoraineFormat

/// A segment in an archive, read a part at a time.
struct ArchivedSegment: Sendable {
  /// The most bytes that one request reads.
  private static let partBytes = 8 << 20

  private let segment: CheckpointContents.Segment
  private let objects: ArchiveObjects

  init(_ segment: CheckpointContents.Segment, _ objects: ArchiveObjects) {
    (self.segment, self.objects) = (segment, objects)
  }

  private var name: ObjectName { objects.names.data(segment.object) }

  /// Calls the body with the bytes of the segment, part by part, each with its offset.
  ///
  /// - Throws: `.damaged` when the object is missing, or differs from what was written.
  func forEachPart(
    _ body: (Int, [UInt8]) async throws(ArchiveError) -> Void
  ) async throws(ArchiveError) {
    let header = try await header()
    var offset = 0
    while offset < header.rawByteCount {
      let range = offset..<min(offset + Self.partBytes, header.rawByteCount)
      try await body(offset, try await raw(range, header))
      offset = range.upperBound
    }
  }

  /// Returns some bytes of the segment.
  ///
  /// - Throws: `.damaged` when the object is missing, or differs from what was written.
  func bytes(_ range: Range<Int>) async throws(ArchiveError) -> [UInt8] {
    try await raw(range, try await header())
  }

  private func raw(
    _ range: Range<Int>, _ header: ContainerHeader
  ) async throws(ArchiveError) -> [UInt8] {
    let stored = try await stored(header.storedRange(ofBlocks: header.blocks(holding: range)))
    return try decoding(name) { () throws(FormatError) in
      try stored.withUnsafeBufferPointer { stored throws(FormatError) in
        try ContainerReader(header).rawBytes(range, from: UnsafeRawBufferPointer(stored))
      }
    }
  }

  private func header() async throws(ArchiveError) -> ContainerHeader {
    let first = try await stored(0..<24)
    let length = try decoding(name) { () throws(FormatError) in
      try first.withUnsafeBufferPointer { raw throws(FormatError) in
        try ContainerHeader.claimedHeadLength(UnsafeRawBufferPointer(raw))
      }
    }
    let head = try await stored(0..<length)
    let header = try decoding(name) { () throws(FormatError) in
      try head.withUnsafeBufferPointer { raw throws(FormatError) in
        try ContainerHeader(decoding: UnsafeRawBufferPointer(raw))
      }
    }
    guard UInt64(header.rawByteCount) == segment.lengthBytes,
      UInt64(header.byteCount) == segment.objectByteCount
    else {
      throw ArchiveError(
        .damaged, "the object holds another segment than the checkpoint says", object: name)
    }
    return header
  }

  private func stored(_ range: Range<Int>) async throws(ArchiveError) -> [UInt8] {
    guard let bytes = try await objects.get(name, range) else {
      throw ArchiveError(.damaged, "an object of the checkpoint is missing", object: name)
    }
    guard bytes.count == range.count else {
      let end = range.lowerBound + bytes.count
      throw ArchiveError(
        .damaged, "the object ends at byte \(end) and should not", object: name, offset: end)
    }
    return bytes
  }
}
