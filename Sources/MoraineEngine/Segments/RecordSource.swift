import MoraineFormat
import MoraineStorage

/// Segments that records are read from: those of the open store, or those of a snapshot.
protocol RecordSource: ~Copyable, TreeKeySource {
  var count: Int { get }
  var views: UnsafeMutablePointer<SegmentView> { get }
  var hashKey: HashKey { get }
  func fileName(_ slot: Int) -> String
  /// Reads bytes of a segment that is not mapped. They are valid until the next call.
  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer
  /// Begins to read a part of the log from the disk, without waiting for it; a hint.
  func announce(_ part: LogPart) throws(StoreError)
  /// Returns the dictionary that the values of a segment share; empty when there is none.
  func dictionary(of slot: Int) -> [UInt8]
  /// Returns the value of a verified record that was compressed with the dictionary of its segment.
  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8]
}

extension RecordSource where Self: ~Copyable {
  @inline(__always)
  func hash(_ key: UnsafeRawBufferPointer, _ keyspace: UInt16) -> UInt64 {
    KeyHash.hash(key, keyspace: keyspace, with: hashKey)
  }

  /// Returns the record at an address. Its fields are checked, its checksum is not. The record is
  /// valid until the next call.
  ///
  /// - Throws: `.corrupted`, `.newerFormat`, `.io`.
  @inline(__always)
  func record(at address: Address) throws(StoreError) -> RecordReference {
    let slot = address.slot
    guard slot < count else { throw damaged(address, "an index entry refers to no segment") }
    return try record(at: address, before: views[slot].end)
  }

  /// Returns the record at an address of a segment that exists, as ``record(at:)`` does.
  ///
  /// - Parameter end: the end of the segment's records.
  @inline(__always)
  func record(at address: Address, before end: Int) throws(StoreError) -> RecordReference {
    let (slot, offset) = (address.slot, address.offset)
    guard let base = views[slot].base else { return try recordFromFile(at: address, before: end) }
    let available = end &- offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    let start = UnsafeRawPointer(base + offset)
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the invalid length \(length)")
    }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  /// Throws unless the bytes of the record are those that were written.
  @inline(__always)
  func verify(_ record: RecordReference, at address: Address) throws(StoreError) {
    guard isIntact(record, at: address) else {
      throw damaged(address, "a record's checksum does not match")
    }
  }

  /// Returns whether the bytes of the record are those that were written.
  @inline(__always)
  func isIntact(_ record: RecordReference, at address: Address) -> Bool {
    let checksum = RecordHeader.checksum(
      of: record.base, length: record.header.length, at: UInt64(address.offset),
      seed: views[address.slot].seed)
    return checksum == RecordHeader.storedChecksum(at: record.base)
  }

  private func recordFromFile(
    at address: Address, before end: Int
  ) throws(StoreError) -> RecordReference {
    let available = end - address.offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    // Most records are short: one read fetches the whole record.
    var start = try load(address, count: min(available, 1024))
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the invalid length \(length)")
    }
    if length > 1024 { start = try load(address, count: length) }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  private func unreadable(
    _ address: Address, _ start: UnsafeRawPointer, _ length: Int
  ) -> StoreError {
    let checksum = RecordHeader.checksum(
      of: start, length: length, at: UInt64(address.offset), seed: views[address.slot].seed)
    let isSound = checksum == RecordHeader.storedChecksum(at: start)
    let error: FormatError =
      isSound
      ? FormatError(newer: "a record uses an unknown feature", at: UInt64(address.offset))
      : FormatError("a record's fields contradict each other", at: UInt64(address.offset))
    return StoreError(error, file: fileName(address.slot))
  }

  func damaged(_ address: Address, _ what: String) -> StoreError {
    guard address.slot < count else { return .indexDamaged(what, nil) }
    return .corrupted(what, fileName(address.slot), at: address.offset)
  }
}

extension RecordSource where Self: ~Copyable {
  /// Returns the index entry of a key, and the record that it names.
  // With `@inline(__always)` a put and a get call this function, and it returns the record in
  // memory, which they copy: 60 to 150 instructions.
  @_transparent
  func find<Index: KeyIndex & ~Copyable>(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, hash: UInt64, in index: borrowing Index
  ) throws(StoreError) -> IndexHit? {
    var candidates = index.candidates(hash)
    while let entry = index.next(&candidates) {
      let address = entry.address
      let record = try record(at: address)
      if record.header.keyLength == key.count, record.header.keyspace == keyspace,
        record.key.elementsEqualFast(key)
      {
        return IndexHit(entry: entry, record: record)
      }
      // This is another key with the same tag, or this key's damaged record: only the checksum
      // shows which.
      try verify(record, at: address)
    }
    return nil
  }
}

extension RecordSource where Self: ~Copyable {
  /// Returns whether a record is hidden because its time has come. A damaged record is not hidden.
  ///
  /// - Parameter now: milliseconds since 1970; not asked for when the record does not expire.
  /// - Throws: `.corrupted` when the record that would be hidden is damaged.
  @inline(__always)
  func isHidden(
    _ record: RecordReference, at address: Address, _ now: @autoclosure () -> UInt64
  ) throws(StoreError) -> Bool {
    guard record.hasExpired(at: now()) else { return false }
    try verify(record, at: address)
    return true
  }

  /// Returns whether a record is hidden because its time has come; false for a damaged record,
  /// which can be deleted.
  func isHiddenAndIntact(
    _ record: RecordReference, at address: Address, _ now: @autoclosure () -> UInt64
  ) -> Bool {
    record.hasExpired(at: now()) && isIntact(record, at: address)
  }
}

// Look-ups in the trees of ordered keyspaces.
extension RecordSource where Self: ~Copyable {
  func key(at address: Address) throws(StoreError) -> UnsafeRawBufferPointer {
    let record = try record(at: address)
    try verify(record, at: address)
    guard record.key.count <= StoreLimits.orderedKeyLengthBytes else {
      throw .indexDamaged("a tree names a record whose key is too long for it", nil)
    }
    return record.key
  }

  @inline(__always)
  func prefetch(_ address: Address) { prefetch(address, length: 0) }

  /// Begins to fetch a record to the processor's cache; a hint.
  ///
  /// - Parameter length: the length that the record is expected to have, in bytes.
  @inline(__always)
  func prefetch(_ address: Address, length: Int) {
    guard address.slot < count, let base = views[address.slot].base else { return }
    let start = UnsafeRawPointer(base + address.offset)
    // Most records are in three lines.
    CPU.prefetch(start)
    CPU.prefetch(start + 64)
    CPU.prefetch(start + 128)
    if length > 192 { prefetchRest(start, length) }
  }

  /// Begins to fetch what a longer record has after its first three lines. Of a very long one, the
  /// processor recognizes the order in which its lines are read.
  @inline(never)
  private func prefetchRest(_ start: UnsafeRawPointer, _ length: Int) {
    for offset in stride(from: 192, to: min(length, 1024), by: 64) { CPU.prefetch(start + offset) }
  }

  func isCheapToRead(_ address: Address) -> Bool {
    guard address.slot < count, let base = views[address.slot].base,
      views[address.slot].end - address.offset >= RecordHeader.fixedLength
    else { return false }
    return RecordHeader.length(at: base + address.offset) <= 4096
  }

  /// Returns the record of a key in an ordered keyspace. Its checksum is not verified.
  @inline(__always)
  func find<Pages: TreePages & ~Copyable>(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, in pages: borrowing Pages, _ root: TreeRoot
  ) throws(StoreError) -> FoundRecord? {
    guard let found = pages.candidate(TreeKey(key), root) else { return nil }
    let address = TreeLeaf(pages.page(found.node)).address(found.position)
    // Nearly all entries.
    if let record = namedPut(at: address), record.header.keyLength == key.count,
      record.header.keyspace == keyspace, record.key.elementsEqualFast(key)
    {
      return FoundRecord(record: record, address: address)
    }
    let record = try record(at: address)
    if record.header.keyLength == key.count, record.header.keyspace == keyspace,
      record.header.kind.effect == .sets, record.key.elementsEqualFast(key)
    {
      return FoundRecord(record: record, address: address)
    }
    // This is another key with the same head, or this key's damaged record: only the checksum
    // distinguishes them.
    try verify(record, at: address)
    try checkIsValue(record, of: keyspace)
    let leaf = TreeLeaf(pages.page(found.node))
    let shared = TreeKey(key).shared(with: TreeKey(record.key)) ?? .max
    guard found.range.count > 1, shared >= leaf.prefixLength &+ Int(TreeLeaf.longShared) else {
      return nil
    }
    return try findAmongLongKeys(key, keyspace, in: leaf)
  }

  /// Returns the record of a key among keys that may share more bytes than a leaf can say.
  private func findAmongLongKeys(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16, in leaf: TreeLeaf
  ) throws(StoreError) -> FoundRecord? {
    let place = try leaf.place(of: TreeKey(key), self)
    guard place.isMatch else { return nil }
    let address = leaf.address(place.position)
    let record = try record(at: address)
    try checkIsValue(record, of: keyspace)
    return FoundRecord(record: record, address: address)
  }

  /// Throws unless a record is a value of a keyspace. Only a forged checkpoint names another one.
  func checkIsValue(_ record: RecordReference, of keyspace: UInt16?) throws(StoreError) {
    guard record.header.keyspace == keyspace, record.header.kind.effect == .sets else {
      throw .indexDamaged("a tree names a record that is no value of its keyspace", nil)
    }
  }
}

/// A record, and the address at which an index names it. The bytes are valid until the next read.
struct FoundRecord {
  let record: RecordReference
  let address: Address
}

extension RecordSource where Self: ~Copyable {
  /// Returns the value of a record whose checksum was verified.
  @inline(__always)
  func value(of record: RecordReference, at address: Address) throws(StoreError) -> [UInt8] {
    let header = record.header
    switch header.codec {
    case .raw:
      return [UInt8](record.stored)
    case .lz4:
      var isSound = false
      let value = makeBytes(header.rawLength) {
        isSound = Decompressor.decompress(record.stored, into: $0)
      }
      guard isSound else { throw undecompressable(address) }
      return value
    case .lz4Dictionary:
      guard views[address.slot].dictionaryLength > 0 else {
        throw damaged(address, "a value needs a dictionary, but its segment has none")
      }
      return try valueWithDictionary(record, at: address)
    }
  }

  /// Returns the value of a record whose checksum was verified: the stored bytes, or a decompressed
  /// copy in the buffer. The value is valid while the segment is mapped and the buffer is not
  /// reused.
  @inline(__always)
  func borrowedValue(
    of record: RecordReference, at address: Address, _ scratch: ScratchBuffer
  ) throws(StoreError) -> UnsafeRawBufferPointer {
    let header = record.header
    let target: UnsafeMutableRawBufferPointer
    let isSound: Bool
    switch header.codec {
    case .raw:
      return record.stored
    case .lz4:
      target = scratch.reserve(header.rawLength)
      isSound = Decompressor.decompress(record.stored, into: target)
    case .lz4Dictionary:
      target = scratch.reserve(header.rawLength)
      isSound = dictionary(of: address.slot).withBytes {
        Decompressor.decompress(record.stored, into: target, dictionary: $0)
      }
    }
    guard isSound else { throw undecompressable(address) }
    return UnsafeRawBufferPointer(target)
  }

  func undecompressable(_ address: Address) -> StoreError {
    damaged(address, "a compressed value cannot be decompressed")
  }

  /// Returns the value of a record, decompressed with a dictionary that is used once.
  func value(
    of record: RecordReference, at address: Address, dictionary: [UInt8]
  ) throws(StoreError) -> [UInt8] {
    var isSound = false
    let value = dictionary.withBytes { dictionary in
      makeBytes(record.header.rawLength) {
        isSound = Decompressor.decompress(record.stored, into: $0, dictionary: dictionary)
      }
    }
    guard isSound else { throw undecompressable(address) }
    return value
  }
}

extension SegmentTable {
  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8] {
    let slot = address.slot
    guard record.header.rawLength <= DictionaryCache.valueBytes else {
      return try value(of: record, at: address, dictionary: infos[slot].dictionary)
    }
    var value: [UInt8]?
    let hasPlace = infos[slot].dictionary.withBytes { dictionary in
      dictionaries.decompress(record, dictionary, of: slot) {
        value = $0.map { [UInt8]($0) }
      }
    }
    guard hasPlace else {
      return try self.value(of: record, at: address, dictionary: infos[slot].dictionary)
    }
    guard let value else { throw undecompressable(address) }
    return value
  }
}

/// Returns an array of `count` bytes, which the body fills.
///
/// Short arrays are made on the stack and copied: that costs less than the array initializers for
/// uninitialized or repeated elements, which look up generic metadata at run time.
@inline(__always)
private func makeBytes(
  _ count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void
) -> [UInt8] {
  if count > 1024 {
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      fill(UnsafeMutableRawBufferPointer(buffer))
      filled = count
    }
  }
  return withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { buffer in
    fill(buffer)
    return [UInt8](UnsafeRawBufferPointer(buffer))
  }
}

/// A record in memory.
struct RecordReference {
  let base: UnsafeRawPointer
  let header: RecordHeader

  @inline(__always)
  var key: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base + header.keyOffset, count: header.keyLength)
  }
  @inline(__always)
  var stored: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base + header.valueOffset, count: header.storedLength)
  }
  /// Expiry of a put, in milliseconds since 1970; nil when the put has none. Reads hide a record
  /// whose time has come. Compaction keeps it: only a delete ends it for good.
  var expiryMilliseconds: UInt64? {
    header.kind == .put ? header.expiryMilliseconds(at: base) : nil
  }

  /// Whether the record's time has come.
  ///
  /// - Parameter now: milliseconds since 1970; not asked for when the record does not expire.
  @inline(__always)
  func hasExpired(at now: @autoclosure () -> UInt64) -> Bool {
    header.hasExpiry && expiryMilliseconds ?? .max <= now()
  }
}

/// An index entry, and the record that it names. The bytes are valid until the next read.
struct IndexHit {
  let entry: IndexEntry
  let record: RecordReference

  @inline(__always)
  var address: Address { entry.address }

  /// The entry, with the facts about the record that are needed when another record replaces it.
  @inline(__always)
  var replaceable: ReplaceableEntry {
    ReplaceableEntry(
      entry: entry, length: record.header.length, sequence: record.header.sequence)
  }
}

/// An index entry that is about to name another record, or to be removed.
struct ReplaceableEntry {
  let entry: IndexEntry
  /// Length of the record that the entry names, in bytes.
  let length: Int
  /// Sequence number of that record.
  let sequence: UInt64

  @inline(__always)
  var address: Address { entry.address }
}
