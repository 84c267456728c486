extension Manifest {
  /// Reads a whole manifest file.
  ///
  /// The checksum is verified before the version: a damaged version number is damage, not a newer
  /// version.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    guard bytes.count >= Self.fixedLength + 4 else {
      throw FormatError("the file is shorter than a manifest", at: UInt64(bytes.count))
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 4)])
    var reader = ByteReader(body)
    guard try reader.take(8).elementsEqual(Self.magic) else {
      throw FormatError("not a Moraine manifest (wrong magic)", at: 0)
    }
    let version: UInt16 = try reader.read()
    let reserved: UInt16 = try reader.read()
    let length: UInt32 = try reader.read()
    guard Int(length) == bytes.count else {
      throw FormatError(
        "the manifest has \(bytes.count) bytes, but its header says \(length)", at: 12)
    }
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError("manifest checksum does not match", at: UInt64(body.count))
    }
    guard version == formatVersion, reserved == 0 else {
      throw FormatError(newer: "format version \(version)", at: 8)
    }
    self.init(
      storeID: try reader.readIdentifier(), instanceID: try reader.readIdentifier(),
      hashKey: HashKey(k0: try reader.read(), k1: try reader.read()))
    try decodeFixedFields(&reader)
    let flags: UInt32 = try reader.read()
    guard flags & 0xFFFF_0000 == 0 else {
      throw FormatError(newer: "manifest flags that this version does not know", at: 152)
    }
    isBackup = flags & Self.backupFlag != 0
    let sectionCount: UInt32 = try reader.read()
    for _ in 0..<sectionCount { try decodeSection(&reader) }
    guard reader.remaining == 0 else {
      throw FormatError("bytes after the last section", at: reader.offset)
    }
    try checkSegments()
  }

  /// Checks that no segment has a higher epoch or a higher sequence number than the manifest.
  private func checkSegments() throws(FormatError) {
    for segment in segments {
      guard segment.epoch <= epoch else {
        throw FormatError(
          "segment \(segment.number) has epoch \(segment.epoch), above the manifest's", at: 64)
      }
      guard segment.lastSequence <= lastSequence else {
        throw FormatError(
          "segment \(segment.number) ends at \(segment.lastSequence), above the manifest's last",
          at: 80)
      }
    }
  }

  private mutating func decodeFixedFields(_ reader: inout ByteReader) throws(FormatError) {
    epoch = try reader.read()
    generation = try reader.read()
    lastSequence = SequenceNumber(rawValue: try reader.read())
    nextSegmentNumber = try reader.read()
    feedHorizon = SequenceNumber(rawValue: try reader.read())
    watermarkSegment = try reader.read()
    watermarkOffset = try reader.read()
    compactedThrough = SequenceNumber(rawValue: try reader.read())
    digest = try reader.readDigest()
    createdMilliseconds = try reader.read()
    guard lastSequence <= .max, nextSegmentNumber > 0 else {
      throw FormatError("invalid sequence or segment number", at: 80)
    }
    // No store counts this far. The limit keeps a later increment from overflowing.
    guard max(epoch, generation, nextSegmentNumber) <= StoreLimits.manifestCounter else {
      throw FormatError("invalid epoch, generation or segment number", at: 64)
    }
  }

  private mutating func decodeSection(_ reader: inout ByteReader) throws(FormatError) {
    let start = reader.offset
    let rawTag: UInt16 = try reader.read()
    let flags: UInt16 = try reader.read()
    let length: UInt32 = try reader.read()
    var payload = ByteReader(try reader.take(Int(length)), fileOffset: start + 8)
    switch SectionTag(rawValue: rawTag) {
    case .segments: try decodeSegments(&payload)
    case .keyspaces: try decodeKeyspaces(&payload)
    case .epochs: try decodeEpochs(&payload)
    case .cuts: try decodeCuts(&payload)
    case nil:
      guard flags & 1 == 0 else {
        throw FormatError(newer: "manifest section \(rawTag)", at: start)
      }
    }
  }

  private mutating func decodeSegments(_ reader: inout ByteReader) throws(FormatError) {
    var seen = Set(segments.map(\.number))
    while reader.remaining > 0 {
      let start = reader.offset
      let number = SegmentNumber(rawValue: try reader.read())
      var segment = Segment(number: number, epoch: 0)
      segment.lengthBytes = try reader.read()
      segment.recordCount = try reader.read()
      segment.firstSequence = SequenceNumber(rawValue: try reader.read())
      segment.lastSequence = SequenceNumber(rawValue: try reader.read())
      segment.liveBytes = try reader.read()
      segment.epoch = try reader.read()
      segment.flags = Segment.Flags(rawValue: try reader.read())
      try reader.skipZeros(12, "manifest segment entry")
      guard number.rawValue > 0, number.rawValue < nextSegmentNumber,
        segment.lengthBytes <= StoreLimits.segmentLengthBytes,
        segments.count < StoreLimits.segmentCount
      else { throw FormatError("invalid segment entry", at: start) }
      guard seen.insert(number).inserted else {
        throw FormatError("segment \(number) is listed twice", at: start)
      }
      segments.append(segment)
    }
  }

  private mutating func decodeKeyspaces(_ reader: inout ByteReader) throws(FormatError) {
    var ids = Set(keyspaces.map(\.id)).union([0])
    var names = Set(keyspaces.map(\.name)).union([""])
    while reader.remaining > 0 {
      let start = reader.offset
      let id: UInt16 = try reader.read()
      let index: UInt8 = try reader.read()
      let length: UInt8 = try reader.read()
      // Repaired text would be another name, and could be too long to be written again.
      guard let name = String(validating: try reader.take(Int(length)), as: UTF8.self) else {
        throw FormatError("a keyspace name that is not UTF-8", at: start)
      }
      guard ids.insert(id).inserted, names.insert(name).inserted else {
        throw FormatError("two keyspaces have the same number or name", at: start)
      }
      keyspaces.append(Keyspace(id: id, index: index, name: name))
    }
  }

  private mutating func decodeEpochs(_ reader: inout ByteReader) throws(FormatError) {
    while reader.remaining > 0 {
      epochs.append(
        Epoch(
          epoch: try reader.read(), firstSequence: SequenceNumber(rawValue: try reader.read()),
          instanceID: try reader.readIdentifier()))
    }
  }

  private mutating func decodeCuts(_ reader: inout ByteReader) throws(FormatError) {
    let start = reader.offset
    var list = cuts
    while reader.remaining > 0 {
      list.append(
        Cut(
          number: try reader.read(), lastSequence: SequenceNumber(rawValue: try reader.read()),
          id: try reader.read()))
    }
    guard takeCuts(list) else { throw FormatError("invalid cuts of the log", at: start) }
  }
}
