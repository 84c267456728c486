import MoraineFormat

extension SegmentSalvage {
  /// The record at a place; nil when there is none that is whole.
  ///
  /// - Throws: `.newerFormat` for a sound one with something unknown.
  func record(at offset: Int, _ name: String) throws(StoreError) -> RecordHeader? {
    guard let length = length(at: offset) else { return nil }
    return try source.bytes.withBytes { (bytes) throws(StoreError) -> RecordHeader? in
      guard let base = bytes.baseAddress.map({ $0 + offset }), isWhole(base, length, offset) else {
        return nil
      }
      guard let header = RecordHeader.parse(base, length: length) else {
        throw StoreError(
          FormatError(newer: "a record uses something unknown", at: UInt64(offset)), file: name)
      }
      return isBehind(header) ? header : nil
    }
  }

  /// The first whole record behind a place.
  ///
  /// - Complexity: O(bytes): what does not look like a record has its checksum never computed.
  ///   Where values are full of what looks like long records, O(bytes · their length).
  func nextRecord(behind offset: Int, to end: Int) -> Int? {
    var place = aligned(offset + 1)
    return source.bytes.withUnsafeBytes { bytes in
      while place + RecordHeader.fixedLength <= end {
        defer { place += recordAlignment }
        guard let header = RecordHeader.candidate(in: bytes, at: place, before: end),
          isBehind(header), header.isWhole(in: bytes, at: place, seed: seed)
        else { continue }
        return place
      }
      return nil
    }
  }

  /// Records in a hole that are damaged, but say which key they are of. A sequence number between
  /// those around the hole is what tells them from other bytes.
  func damagedRecords(in range: Range<Int>, before: UInt64?) -> [Int] {
    var places: [Int] = []
    var (place, last) = (range.lowerBound, lastSequence)
    source.bytes.withUnsafeBytes { bytes in
      while place + RecordHeader.fixedLength <= range.upperBound {
        guard
          let header = RecordHeader.candidate(in: bytes, at: place, before: range.upperBound),
          header.sequence > last, header.sequence < (before ?? .max),
          header.sequence <= plan.sequences.highest,
          header.kind.isOperation
        else {
          place += recordAlignment
          continue
        }
        places.append(place)
        last = header.sequence
        place += aligned(header.length)
      }
    }
    return places
  }

  func isEmpty(_ range: Range<Int>) -> Bool { lastWritten(in: range) == range.lowerBound }

  /// Behind the last byte that is not zero.
  func lastWritten(in range: Range<Int>) -> Int {
    source.bytes[range].lastIndex { $0 != 0 }.map { $0 + 1 } ?? range.lowerBound
  }

  /// What no sequence number before this whole record reaches: a mark has that of what is before
  /// it.
  func firstSequence(from offset: Int) -> UInt64 {
    let header = source.header(at: offset)
    return header.kind.isOperation ? header.sequence : header.sequence + 1
  }

  func durableOffset(of offset: Int, _ header: RecordHeader) -> Int {
    source.bytes.withUnsafeBytes { bytes in
      let stored = UnsafeRawBufferPointer(
        rebasing: bytes[(offset + header.valueOffset)..<(offset + header.length)])
      do throws(FormatError) {
        return Int(clamping: try SyncMark(decoding: stored).durableOffset)
      } catch {
        // A mark that promises nothing that can be understood.
        return 0
      }
    }
  }

  /// What the length field says, when it can be true.
  private func length(at offset: Int) -> Int? {
    let end = min(limit, source.bytes.count)
    guard offset + RecordHeader.fixedLength <= end else { return nil }
    let length = source.bytes.withUnsafeBytes { RecordHeader.length(at: $0.baseAddress! + offset) }
    let longest = min(end - offset, Limits.recordLengthBytes)
    return length >= RecordHeader.fixedLength && length <= longest ? length : nil
  }

  private func isWhole(_ base: UnsafeRawPointer, _ length: Int, _ offset: Int) -> Bool {
    RecordHeader.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
      == RecordHeader.storedChecksum(at: base)
  }

  /// Numbers of puts and deletes rise, and are those that the segment can have; a mark has that of
  /// what is before it.
  private func isBehind(_ header: RecordHeader) -> Bool {
    guard header.kind.isOperation else {
      return header.sequence >= lastSequence || survivors.isEmpty
    }
    return header.sequence > lastSequence && header.sequence <= plan.sequences.highest
  }
}
