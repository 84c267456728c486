import MoraineFormat

/// Records: every record that parses lies within its bytes and its limits, and is written again
/// unchanged.
enum RecordBody {
  private static let isDrafted = FuzzFlags(rawValue: 1)
  private static let isSequence = FuzzFlags(rawValue: 2)
  private static let isUntouched = FuzzFlags(rawValue: 4)

  static func run(_ input: inout FuzzInput) throws {
    let flags = FuzzFlags(&input)
    if flags.contains(isDrafted) {
      try check(mutatedDraft(&input))
    } else if flags.contains(isSequence) {
      var segment = SegmentBytes(records: input.rest())
      if !flags.contains(isUntouched) { segment.mendRecords() }
      try segment.forEachRecord { _, record, base in
        try check(Array(UnsafeRawBufferPointer(start: base, count: record.length)))
      }
    } else {
      var bytes = input.rest()
      if !flags.contains(isUntouched) { bytes.store(UInt32(bytes.count), at: 0) }
      try check(bytes)
    }
  }

  /// A sound record of which some bytes were changed.
  private static func mutatedDraft(_ input: inout FuzzInput) -> [UInt8] {
    let sequence = UInt64(input.integer(byteCount: 7))
    let shape = input.byte()
    let codec = RecordCodec(rawValue: shape & 3) ?? .raw
    let batch = BatchRole(rawValue: shape >> 2 & 3) ?? .alone
    let keyspace = UInt16(input.byte())
    let rawLength = input.integer(byteCount: 3)
    let key = input.take(Int(input.byte()))
    let stored = input.take(Int(input.byte()))
    var bytes: [UInt8] = []
    key.withUnsafeBytes { key in
      stored.withUnsafeBytes { stored in
        var draft = RecordDraft(
          sequence: sequence, kind: RecordKind(rawValue: shape >> 4) ?? .put, key: key,
          stored: stored)
        draft.codec = codec
        draft.batch = batch
        draft.batchCount = UInt32(rawLength)
        draft.keyspace = keyspace
        draft.rawLength = rawLength
        bytes = [UInt8](repeating: 0, count: draft.length)
        bytes.withUnsafeMutableBytes { draft.write(to: $0.baseAddress!, at: 0, seed: Checksum()) }
      }
    }
    while !input.isAtEnd {
      let place = Int(input.byte()) % bytes.count
      bytes[place] ^= input.byte()
    }
    return bytes
  }

  /// - Parameter bytes: bytes that may hold a record; there may be more bytes than its length says.
  private static func check(_ bytes: [UInt8]) throws {
    let length = Int(bytes.load(UInt32.self, at: 0))
    guard length >= RecordHeader.fixedLength, length <= bytes.count else { return }
    try Array(bytes[..<length]).withExactBytes { raw in
      guard let base = raw.baseAddress, let record = RecordHeader.parse(base, length: length)
      else { return }
      try checkLimits(record, length)
      try checkPayload(record, base)
      try checkRewritten(record, base)
      try checkCopy(record, base)
    }
  }

  private static func checkLimits(_ record: RecordHeader, _ length: Int) throws(Finding) {
    try require(record.length == length, "a length of \(record.length), not \(length)")
    try require(
      record.keyOffset >= RecordHeader.fixedLength && record.keyLength >= 0
        && record.valueOffset <= length && record.valueOffset + record.storedLength == length,
      "key or value lie outside of the record")
    try require(record.keyLength <= StoreLimits.keyLengthBytes, "a key over its limit")
    try require(
      record.rawLength >= 0 && record.rawLength <= StoreLimits.valueLengthBytes
        && record.rawLength
          <= max(
            record.storedLength, StoreLimits.rawLengthBound(stored: record.storedLength)),
      "a value over its limit")
    try require(record.sequence < 1 << 56, "a sequence number of more than 56 bits")
    try require(record.flags & RecordHeader.Flag.unknown == 0, "an unknown flag")
    try require(
      record.flags & RecordHeader.Flag.mustUnderstand == 0, "an extension to be understood")
    if record.kind == .delete { try require(record.storedLength == 0, "a delete with a value") }
  }

  private static func checkPayload(_ record: RecordHeader, _ base: UnsafeRawPointer) throws {
    let stored = UnsafeRawBufferPointer(
      start: base + record.valueOffset, count: record.storedLength)
    switch record.kind {
    case .put, .delete: return
    case .syncMark:
      let mark = try SyncMark(decoding: stored)
      try require(mark.encoded() == Array(stored), "a sync mark is written in another way")
    case .footer:
      let footer: SegmentFooter
      do throws(FormatError) { footer = try SegmentFooter(decoding: stored) } catch { return }
      try require(footer.encoded() == Array(stored), "a footer is written in another way")
    }
  }

  /// Where writers have a field for everything that the record says, they write the same bytes.
  private static func checkRewritten(
    _ record: RecordHeader, _ base: UnsafeRawPointer
  ) throws(Finding) {
    let expiry = record.expiryMilliseconds(at: base)
    let written = RecordHeader.Flag.keyspace | RecordHeader.Flag.expiry
    guard record.flags & ~written == 0,
      record.flags & RecordHeader.Flag.keyspace == 0 || record.keyspace != 0, expiry != 0
    else { return }
    if let expiry {
      // It is the last field before the key.
      let field = UnsafeRawBufferPointer(start: base + record.keyOffset - 8, count: 8)
      let time = field.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      try require(expiry == time, "the expiry is read as \(expiry), not \(time)")
    }
    var draft = RecordDraft(
      sequence: record.sequence, kind: record.kind,
      key: UnsafeRawBufferPointer(start: base + record.keyOffset, count: record.keyLength),
      stored: UnsafeRawBufferPointer(start: base + record.valueOffset, count: record.storedLength))
    draft.codec = record.codec
    draft.batch = record.batch
    draft.batchCount = UInt32(record.batchCount)
    draft.keyspace = record.keyspace
    draft.expiryMilliseconds = expiry ?? 0
    draft.rawLength = record.rawLength
    try require(draft.length == record.length, "written again it has another length")
    var bytes = [UInt8](repeating: 0, count: record.length)
    bytes.withUnsafeMutableBytes { draft.write(to: $0.baseAddress!, at: 0, seed: Checksum()) }
    let original = Array(UnsafeRawBufferPointer(start: base, count: record.length))
    try require(
      bytes[..<4] == original[..<4] && bytes[8...] == original[8...],
      "written again it is something else")
  }

  /// The copy that compaction makes says the same.
  private static func checkCopy(_ record: RecordHeader, _ base: UnsafeRawPointer) throws(Finding) {
    guard record.kind == .put || record.kind == .delete else { return }
    let copy = RecordCopy(base, record)
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: copy.length, alignment: 8)
    defer { target.deallocate() }
    guard let start = target.baseAddress else { return }
    copy.write(to: start, at: 0, seed: Checksum())
    guard let other = RecordHeader.parse(start, length: RecordHeader.length(at: start)) else {
      throw Finding("a record's copy cannot be read")
    }
    func bytes(_ base: UnsafeRawPointer, _ range: Range<Int>) -> [UInt8] {
      Array(UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
    }
    try require(
      other.length == copy.length && other.sequence == record.sequence && other.kind == record.kind
        && other.codec == record.codec && other.keyspace == record.keyspace
        && other.rawLength == record.rawLength
        && other.expiryMilliseconds(at: start) == record.expiryMilliseconds(at: base),
      "a record's copy says something else")
    try require(
      bytes(start, other.keyOffset..<other.length) == bytes(base, record.keyOffset..<record.length),
      "a record's copy has another key or value")
  }
}
