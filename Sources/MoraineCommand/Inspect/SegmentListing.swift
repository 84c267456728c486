import Moraine
import MoraineFormat

/// The header and the records of a segment file, and the damaged ranges between them.
struct SegmentListing {
  let bytes: [UInt8]
  let name: String
  let json: Bool
  /// The offset from which the end of the segment may have been torn; nil where no end was torn.
  let tornFrom: UInt64?

  /// - Throws: a failure with exit code 3 if the segment is damaged, after everything is printed.
  func print() throws {
    let hint = "; no record can be verified without it; moraine doctor --salvage may find records"
    let header = try decoded(bytes, name, hint: hint) { try SegmentHeader(decoding: $0) }
    try print(header)
    var offset = header.headerLength
    var damageCount = 0
    while offset < bytes.count {
      if let record = record(at: offset, header.checksumSeed) {
        try print(record, at: offset)
        offset += aligned(record.length)
        continue
      }
      let next = nextRecord(after: offset, header.checksumSeed)
      let stop = next ?? end(from: offset)
      if stop == offset { break }
      let isTorn = next == nil && tornFrom.map { $0 <= UInt64(offset) } ?? false
      if !isTorn { damageCount += 1 }
      try printGap(offset, stop, isTorn ? "torn" : "damaged")
      offset = stop
    }
    if offset < bytes.count { try printEmpty(offset) }
    guard damageCount > 0 else { return }
    let verb = damageCount == 1 ? "holds" : "hold"
    throw Failure(
      code: 3,
      message: "\(Units.counted(damageCount, "range")) in \(name) \(verb) no whole record")
  }

  private func print(_ header: SegmentHeader) throws {
    var line = Fields()
    line.add("file", name)
    line.add("storeID", header.storeID.description)
    line.add("epoch", header.epoch)
    line.add("segmentNumber", header.number.rawValue)
    line.add("predecessorNumber", header.predecessor.number)
    line.add("predecessorLength", header.predecessor.lengthBytes)
    line.add("predecessorLastSequence", header.predecessor.lastSequence.rawValue)
    line.add("generation", header.generation)
    line.add("salt", header.salt)
    line.add("createdMilliseconds", header.createdMilliseconds)
    line.add("flags", header.flags.rawValue)
    line.add("dictionaryLength", header.dictionary.count)
    line.add("headerLength", header.headerLength)
    try Output.line(line.line(json: json))
  }

  private func print(_ record: RecordHeader, at offset: Int) throws {
    var line = Fields()
    line.add("offset", offset)
    line.add("length", record.length)
    line.add("checksum", checksum(at: offset))
    line.add("sequence", record.sequence)
    line.add("kind", "\(record.kind)")
    if record.kind.isOperation {
      line.add("codec", "\(record.codec)")
      line.add("batch", "\(record.batch)")
      if record.batch == .end { line.add("batchCount", record.batchCount) }
      line.add("keyspace", record.keyspace)
      line.add("storedLength", record.storedLength)
      line.add("rawLength", record.rawLength)
      let start = offset + record.keyOffset
      line.add("key", bytes: Array(bytes[start..<(start + record.keyLength)]))
    } else {
      try line.add(payload(of: record, at: offset), of: record.kind, in: name)
    }
    try Output.line(line.line(json: json))
  }

  private func checksum(at offset: Int) -> UInt32 {
    bytes.withUnsafeBytes { RecordHeader.storedChecksum(at: $0.baseAddress! + offset) }
  }

  private func payload(of record: RecordHeader, at offset: Int) -> [UInt8] {
    Array(bytes[(offset + record.valueOffset)..<(offset + record.length)])
  }

  private func printGap(_ offset: Int, _ end: Int, _ kind: String) throws {
    var line = Fields()
    line.add("offset", offset)
    line.add("length", end - offset)
    line.add("kind", kind)
    try Output.line(line.line(json: json))
  }

  /// Prints the space that was reserved for later records.
  private func printEmpty(_ offset: Int) throws {
    var line = Fields()
    line.add("offset", offset)
    line.add("length", bytes.count - offset)
    line.add("kind", "empty")
    try Output.line(line.line(json: json))
  }

  /// Returns the aligned offset after the last byte that is not zero, or the end of the file.
  private func end(from offset: Int) -> Int {
    bytes[offset...].lastIndex { $0 != 0 }.map { min(aligned($0 + 1), bytes.count) } ?? offset
  }

  private func nextRecord(after offset: Int, _ seed: Checksum) -> Int? {
    stride(from: offset + recordAlignment, to: bytes.count, by: recordAlignment)
      .first { record(at: $0, seed) != nil }
  }

  private func record(at offset: Int, _ seed: Checksum) -> RecordHeader? {
    bytes.withUnsafeBytes { raw in
      let header = RecordHeader.candidate(in: raw, at: offset, before: raw.count)
      return header.flatMap { $0.checksumMatches(in: raw, at: offset, seed: seed) ? $0 : nil }
    }
  }
}
