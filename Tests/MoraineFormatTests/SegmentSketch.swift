import MoraineFormat

/// A segment in an array: written with the code under test, and read as a reader of the log would
/// read it.
struct SegmentSketch {
  let header: SegmentHeader
  var bytes: [UInt8]

  init(_ header: SegmentHeader) {
    self.header = header
    bytes = header.encoded()
  }

  /// Appends a record and returns its offset.
  @discardableResult
  mutating func append(
    _ kind: RecordKind, sequence: UInt64, key: [UInt8] = [], stored: [UInt8] = [],
    _ change: (inout RecordDraft) -> Void = { _ in }
  ) -> Int {
    let offset = bytes.count
    let seed = header.checksumSeed
    key.withUnsafeBytes { key in
      stored.withUnsafeBytes { stored in
        var draft = RecordDraft(sequence: sequence, kind: kind, key: key, stored: stored)
        change(&draft)
        bytes.append(contentsOf: repeatElement(0, count: aligned(draft.length)))
        bytes.withUnsafeMutableBytes {
          draft.write(to: $0.baseAddress! + offset, at: UInt64(offset), seed: seed)
        }
      }
    }
    return offset
  }

  func record(at offset: Int) -> RecordHeader? {
    Self.record(in: bytes, at: offset, seed: header.checksumSeed)
  }

  /// Returns the record at `offset`, or nil when a reader of the log finds none there.
  ///
  /// - Parameter place: the offset in its segment, when `bytes` is not the whole segment.
  static func record(
    in bytes: [UInt8], at offset: Int, place: UInt64? = nil, seed: Checksum
  ) -> RecordHeader? {
    bytes.withUnsafeBytes { buffer in
      let available = buffer.count - offset
      guard available >= RecordHeader.fixedLength, let start = buffer.baseAddress else {
        return nil
      }
      let base = start + offset
      let length = RecordHeader.length(at: base)
      guard length >= RecordHeader.fixedLength, length <= available,
        RecordHeader.checksum(of: base, length: length, at: place ?? UInt64(offset), seed: seed)
          == RecordHeader.storedChecksum(at: base)
      else { return nil }
      return RecordHeader.parse(base, length: length)
    }
  }

  func key(of record: RecordHeader, at offset: Int) -> [UInt8] {
    Array(bytes[(offset + record.keyOffset)...].prefix(record.keyLength))
  }

  func stored(of record: RecordHeader, at offset: Int) -> [UInt8] {
    Array(bytes[(offset + record.valueOffset)...].prefix(record.storedLength))
  }
}
