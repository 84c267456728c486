import MoraineFormat

/// The segments of a store as lists of records, which can be changed, moved and removed.
struct SegmentEdits {
  private struct Segment {
    let name: String
    var header: [UInt8]
    /// The bytes of each record, without padding.
    var records: [[UInt8]]
  }

  private static let footer: UInt8 = 4

  private var segments: [Segment]

  init(_ files: StoreFiles) {
    segments = files.segmentNames.map { name in
      let bytes = files[name] ?? []
      let segment = SegmentBytes(bytes)
      var records: [[UInt8]] = []
      segment.forEachRecord { _, record, base in
        records.append(Array(UnsafeRawBufferPointer(start: base, count: record.length)))
      }
      return Segment(
        name: name, header: Array(bytes.prefix(segment.headerLength)), records: records)
    }
  }

  /// An edit: what to do, the segment, the record (2 bytes), and what the operation needs.
  mutating func apply(_ input: inout FuzzInput) {
    let operation = input.byte()
    let index = Int(input.byte()) % segments.count
    guard !segments[index].records.isEmpty else { return }
    let record = place(&input, index)
    switch operation & 15 {
    case 0:
      let place = Int(input.byte()) % segments[index].records[record].count
      segments[index].records[record][place] ^= input.byte()
    case 1: copy(8..<15, &input, index, record, isExchange: false)
    case 2: copy(8..<15, &input, index, record, isExchange: true)
    case 3:
      let sequence = segments[index].records[record].load(UInt32.self, at: 8)
      let difference = UInt32(bitPattern: Int32(Int8(bitPattern: input.byte())))
      segments[index].records[record].store(sequence &+ difference, at: 8)
    case 4:
      let other = place(&input, index)
      segments[index].records.swapAt(record, other)
    case 5 where segments[index].records.count > 1: segments[index].records.remove(at: record)
    case 6:
      // A copy of the record, in this segment or in another one.
      let target = Int(input.byte()) % segments.count
      let copy = segments[index].records[record]
      segments[target].records.insert(copy, at: place(&input, target))
    case 7:
      // The last byte of the key, or of the value.
      let last = segments[index].records[record].count - 1 - Int(input.byte()) % 12
      if last >= 20 { segments[index].records[record][last] &+= input.byte() }
    case 8: segments[index].header[96 + Int(input.byte() & 3)] ^= input.byte()
    case 9: copy(20..<22, &input, index, record, isExchange: true)
    case 10:
      let place = Int(input.byte()) % segments[index].header.count
      segments[index].header[place] ^= input.byte()
    case 11: segments[index].records.reverse(from: record, count: Int(input.byte()))
    default:
      // The whole record, of the same length or not, in another segment.
      let target = Int(input.byte()) % segments.count
      guard !segments[target].records.isEmpty else { return }
      let other = place(&input, target)
      let copy = segments[index].records[record]
      segments[index].records[record] = segments[target].records[other]
      segments[target].records[other] = copy
    }
  }

  private func place(_ input: inout FuzzInput, _ index: Int) -> Int {
    input.integer(byteCount: 2) % max(1, segments[index].records.count)
  }

  /// Copies bytes of another record of the segment, or exchanges them.
  private mutating func copy(
    _ range: Range<Int>, _ input: inout FuzzInput, _ index: Int, _ record: Int, isExchange: Bool
  ) {
    let other = place(&input, index)
    for place in range where place < segments[index].records[record].count {
      guard place < segments[index].records[other].count else { return }
      let byte = segments[index].records[record][place]
      segments[index].records[record][place] = segments[index].records[other][place]
      if isExchange { segments[index].records[other][place] = byte }
    }
  }

  /// Lets each footer count the records before it.
  mutating func correctFooters() {
    for index in segments.indices {
      let records = segments[index].records
      guard let last = records.last, last.count > 44, last[15] & 15 == Self.footer else { continue }
      let sequences = records.dropLast().filter { 1...2 ~= $0[15] & 15 }
        .map { $0.load(UInt64.self, at: 8) & 0x00FF_FFFF_FFFF_FFFF }
      let end = records.count - 1
      segments[index].records[end].store(UInt64(sequences.count), at: 20)
      segments[index].records[end].store(sequences.min() ?? 0, at: 28)
      segments[index].records[end].store(sequences.max() ?? 0, at: 36)
    }
  }

  /// - Parameter isMended: whether to correct the checksums of records and headers.
  func store(in files: inout StoreFiles, isMended: Bool) {
    for segment in segments {
      var bytes = segment.header
      for record in segment.records {
        bytes += record
        bytes += [UInt8](repeating: 0, count: aligned(record.count) - record.count)
      }
      var file = SegmentBytes(bytes)
      if isMended {
        file.mendHeaderChecksum()
        file.mendRecords()
      }
      files[segment.name] = file.bytes
    }
  }
}

extension [[UInt8]] {
  /// Reverses the order of a part.
  fileprivate mutating func reverse(from start: Int, count: Int) {
    let end = Swift.min(start + count, self.count)
    if start < end { self[start..<end].reverse() }
  }
}
