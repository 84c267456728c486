extension Manifest {
  enum SectionTag: UInt16 {
    case segments = 1
    case keyspaces = 2
    case epochs = 3
    /// Optional: a reader that does not know cuts ignores them.
    case cuts = 4
  }

  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Self.magic)
    writer.append(formatVersion)
    writer.append(UInt16(0))
    writer.append(UInt32(0))  // length, known at the end
    writer.append(storeID)
    writer.append(instanceID)
    writer.append(hashKey.k0)
    writer.append(hashKey.k1)
    writer.append(epoch)
    writer.append(generation)
    writer.append(lastSequence.rawValue)
    writer.append(nextSegmentNumber)
    writer.append(feedHorizon.rawValue)
    writer.append(watermarkSegment)
    writer.append(watermarkOffset)
    writer.append(compactedThrough.rawValue)
    writer.append(digest)
    writer.append(createdMilliseconds)
    writer.append(isBackup ? Self.backupFlag : 0)
    writer.append(UInt32(cuts.isEmpty ? 3 : 4))
    precondition(writer.bytes.count == Self.fixedLength, "manifest layout changed")
    append(.segments, encodedSegments(), to: &writer)
    append(.keyspaces, encodedKeyspaces(), to: &writer)
    append(.epochs, encodedEpochs(), to: &writer)
    if !cuts.isEmpty { append(.cuts, encodedCuts(), to: &writer) }
    writer.replace(at: 12, with: UInt32(writer.bytes.count + 4))
    writer.append(Checksum.of(writer.bytes))
    return writer.bytes
  }

  private func append(_ tag: SectionTag, _ payload: [UInt8], to writer: inout ByteWriter) {
    writer.append(tag.rawValue)
    writer.append(UInt16(tag == .cuts ? 0 : 1))
    writer.append(UInt32(payload.count))
    writer.append(contentsOf: payload)
  }

  private func encodedSegments() -> [UInt8] {
    var writer = ByteWriter()
    for segment in segments {
      writer.append(segment.number.rawValue)
      writer.append(segment.lengthBytes)
      writer.append(segment.recordCount)
      writer.append(segment.firstSequence.rawValue)
      writer.append(segment.lastSequence.rawValue)
      writer.append(segment.liveBytes)
      writer.append(segment.epoch)
      writer.append(segment.flags.rawValue)
      writer.appendZeros(12)
    }
    return writer.bytes
  }

  private func encodedKeyspaces() -> [UInt8] {
    var writer = ByteWriter()
    for keyspace in keyspaces {
      let name = Array(keyspace.name.utf8)
      precondition(name.count <= 255, "a keyspace name exceeds 255 bytes")
      writer.append(keyspace.id)
      writer.append(keyspace.index)
      writer.append(UInt8(name.count))
      writer.append(contentsOf: name)
    }
    return writer.bytes
  }

  private func encodedEpochs() -> [UInt8] {
    var writer = ByteWriter()
    for entry in epochs {
      writer.append(entry.epoch)
      writer.append(entry.firstSequence.rawValue)
      writer.append(entry.instanceID)
    }
    return writer.bytes
  }

  private func encodedCuts() -> [UInt8] {
    var writer = ByteWriter()
    for cut in cuts {
      writer.append(cut.number)
      writer.append(cut.lastSequence.rawValue)
      writer.append(cut.id)
    }
    return writer.bytes
  }
}
