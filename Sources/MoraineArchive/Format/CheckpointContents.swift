package import MoraineFormat

/// The contents of a checkpoint, or of a gap: the manifest of the store at a cut, and the object
/// that holds each of its segments. The object is a container of this record.
package struct CheckpointContents: ArchiveRecord {
  package static let magic = Array("MORAINEL".utf8)
  package static let title = "the contents of a checkpoint"

  /// A segment of the store, and the object with its bytes.
  package struct Segment: Hashable, Sendable {
    package var number: SegmentNumber
    package var epoch: UInt64
    /// The salt of the segment's header.
    package var salt: UInt64
    /// The length of the segment at the cut. The container of the object has so many raw bytes.
    package var lengthBytes: UInt64
    /// The object, a container of the segment's bytes.
    package var object: DataObjectName
    /// The length of the object.
    package var objectByteCount: UInt64

    package init(
      number: SegmentNumber, epoch: UInt64, salt: UInt64, lengthBytes: UInt64,
      object: DataObjectName, objectByteCount: UInt64
    ) {
      (self.number, self.epoch, self.salt) = (number, epoch, salt)
      (self.lengthBytes, self.object) = (lengthBytes, object)
      self.objectByteCount = objectByteCount
    }
  }

  package var archiveID: StoreIdentifier
  /// The segments, in the order of the manifest.
  package var segments: [Segment]
  /// The encoding of the manifest, in which every segment is sealed or cut.
  package var manifest: [UInt8]

  package init(archiveID: StoreIdentifier, segments: [Segment], manifest: [UInt8]) {
    (self.archiveID, self.segments, self.manifest) = (archiveID, segments, manifest)
  }

  package func encodeFields(to writer: inout ByteWriter) {
    precondition(segments.count <= StoreLimits.segmentCount, "too many segments")
    writer.append(archiveID)
    writer.append(UInt32(segments.count))
    for segment in segments {
      writer.append(segment.number.rawValue)
      writer.append(segment.epoch)
      writer.append(segment.salt)
      writer.append(segment.lengthBytes)
      writer.append(text: segment.object.description)
      writer.append(segment.objectByteCount)
    }
    writer.append(UInt32(manifest.count))
    writer.append(contentsOf: manifest)
  }

  package init(decodingFields reader: inout ByteReader) throws(FormatError) {
    archiveID = try reader.readIdentifier()
    (segments, manifest) = ([], [])
    let count: UInt32 = try reader.read()
    for _ in 0..<count { segments.append(try Self.readSegment(&reader)) }
    let length: UInt32 = try reader.read()
    let start = reader.offset
    manifest = Array(try reader.take(Int(length)))
    try checkManifest(at: start)
  }

  private static func readSegment(_ reader: inout ByteReader) throws(FormatError) -> Segment {
    Segment(
      number: SegmentNumber(
        rawValue: try reader.readNumber(
          "segment number", through: StoreLimits.manifestCounter)),
      epoch: try reader.readNumber("epoch", through: StoreLimits.manifestCounter),
      salt: try reader.read(),
      lengthBytes: try reader.readNumber(
        "length of a segment", through: StoreLimits.segmentLengthBytes),
      object: try reader.readDataObjectName(),
      objectByteCount: try reader.readNumber("length of an object", through: 1 << 62))
  }

  /// Returns the manifest that ``manifest`` encodes.
  package func decodedManifest() throws(FormatError) -> Manifest {
    try manifest.withUnsafeBufferPointer { raw throws(FormatError) in
      try Manifest(decoding: UnsafeRawBufferPointer(raw))
    }
  }

  /// Checks that the manifest lists exactly the segments, and no open one.
  private func checkManifest(at start: UInt64) throws(FormatError) {
    let listed: [Manifest.Segment]
    do throws(FormatError) {
      listed = try decodedManifest().segments
    } catch {
      throw error.moved(by: start)
    }
    let agrees = listed.elementsEqual(segments) { entry, segment in
      entry.number == segment.number && entry.epoch == segment.epoch && entry.isSealed
        && entry.lengthBytes == segment.lengthBytes
    }
    guard agrees else {
      throw FormatError("the manifest lists other segments than the contents", at: start)
    }
  }
}

extension CheckpointContents {
  /// Returns the object: a container of the encoded record.
  package func container(_ writer: ContainerWriter = ContainerWriter()) -> [UInt8] {
    writer.container(encoded())
  }

  /// Reads the whole object.
  package init(decodingContainer object: UnsafeRawBufferPointer) throws(FormatError) {
    try self.init(
      ContainerReader.rawBytes(of: object, limit: ArchiveLimits.contentsBytes))
  }
}

extension FormatError {
  /// Returns the same error, where the bytes begin at an offset of a longer object.
  func moved(by start: UInt64) -> FormatError {
    let (offset, overflow) = offset.addingReportingOverflow(start)
    let place = overflow ? UInt64.max : offset
    return switch kind {
    case .damaged: FormatError(reason, at: place)
    case .newer: FormatError(newer: reason, at: place)
    }
  }
}
