import MoraineFormat
import MoraineStorage

/// The segments of a store, by the slot that addresses name them with.
struct SegmentTable: ~Copyable, RehashSource {
  private(set) var count = 0
  private var views: UnsafeMutablePointer<SegmentView>
  private var capacity = 16
  var infos: [SegmentInfo] = []
  /// The slots of the segments that make up the store, in replay order: by sequence number.
  private(set) var order: [Int] = []
  /// Segments out of the order whose live records are still moving to others, and the place in the
  /// order where they were.
  private var retiring: (slots: [Int], place: Int) = ([], 0)
  private var freeSlots: [Int] = []
  private let files: FileCache
  private let hashKey: HashKey
  private let scratch = ScratchBuffer()

  init(directory: any StorageDirectory, hashKey: HashKey) {
    self.hashKey = hashKey
    views = .allocate(capacity: capacity)
    files = FileCache(directory: directory)
  }

  deinit { views.deallocate() }

  subscript(slot: Int) -> SegmentView {
    @inline(__always)
    _read { yield views[slot] }
    @inline(__always)
    nonmutating _modify { yield &views[slot] }
  }

  /// Takes a segment in, behind all others.
  ///
  /// - Returns: its slot.
  mutating func append(_ view: SegmentView, _ info: SegmentInfo) -> Int {
    let slot = place(view, info)
    order.append(slot)
    return slot
  }

  /// Gives a segment a slot without making it part of the store yet.
  mutating func place(_ view: SegmentView, _ info: SegmentInfo) -> Int {
    if let slot = freeSlots.popLast() {
      views[slot] = view
      infos[slot] = info
      return slot
    }
    precondition(count < Limits.segmentCount, "more than a million segments")
    if count == capacity {
      let larger = UnsafeMutablePointer<SegmentView>.allocate(capacity: capacity * 2)
      larger.moveInitialize(from: views, count: count)
      views.deallocate()
      views = larger
      capacity *= 2
    }
    (views + count).initialize(to: view)
    infos.append(info)
    count += 1
    return count - 1
  }

  /// Every segment that holds live records, also those that are being given up.
  var readingOrder: [Int] {
    retiring.slots.isEmpty
      ? order : order[..<retiring.place] + retiring.slots + order[retiring.place...]
  }

  /// Puts a segment, or none, in the place of neighbours. These keep their slots until dropped.
  mutating func retire(_ range: Range<Int>, for slot: Int?) {
    retiring = (Array(order[range]), range.lowerBound)
    order.replaceSubrange(range, with: slot.map { [$0] } ?? [])
  }

  /// Undoes ``retire(_:for:)``.
  mutating func reinstate(for slot: Int?) {
    let range = retiring.place..<retiring.place + (slot == nil ? 0 : 1)
    order.replaceSubrange(range, with: retiring.slots)
    retiring = ([], 0)
    if let slot { drop(slot) }
  }

  /// Takes a segment out of the store, if it is still part of it, and gives its slot free. No index
  /// entry names it any more.
  mutating func drop(_ slot: Int) {
    order.removeAll { $0 == slot }
    retiring.slots.removeAll { $0 == slot }
    files.forget(slot)
    infos[slot].mapping = nil
    views[slot] = SegmentView(base: nil, end: 0, seed: views[slot].seed)
    freeSlots.append(slot)
  }

  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  /// Lends a file to reads of a slot, in place of opening it by name.
  func lend(_ file: any StorageFile, for slot: Int) { files.keep(file, for: slot) }

  /// The record at an address, its fields checked, its checksum not yet. Valid until the next call.
  ///
  /// - Throws: `.corrupted`, `.newerFormat`, `.io`.
  @inline(__always)
  func record(at address: Address) throws(StoreError) -> RecordReference {
    let slot = address.slot
    guard slot < count else { throw damaged(address, "an index entry names no segment") }
    let offset = address.offset
    guard let base = views[slot].base else { return try recordFromFile(at: address) }
    let available = views[slot].end &- offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    let start = UnsafeRawPointer(base + offset)
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the impossible length \(length)")
    }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  /// Throws unless the record's bytes are what was written.
  @inline(__always)
  func verify(_ record: RecordReference, at address: Address) throws(StoreError) {
    let checksum = RecordHeader.checksum(
      of: record.base, length: record.header.length, at: UInt64(address.offset),
      seed: views[address.slot].seed)
    guard checksum == RecordHeader.storedChecksum(at: record.base) else {
      throw damaged(address, "a record's checksum does not match")
    }
  }

  private func recordFromFile(at address: Address) throws(StoreError) -> RecordReference {
    let available = views[address.slot].end - address.offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    // Most records are short: one read fetches them whole.
    var start = try load(address, count: min(available, 1024))
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the impossible length \(length)")
    }
    if length > 1024 { start = try load(address, count: length) }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  private func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    let target = scratch.reserve(count)
    let file = try files.file(for: address.slot, named: fileName(address.slot))
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(address.offset))
    }
    guard got == count, let base = target.baseAddress else {
      throw damaged(address, "the file ends before its records do")
    }
    return UnsafeRawPointer(base)
  }

  /// The first bytes of a segment; valid until the next call.
  func bytes(of slot: Int, count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
    let start: UnsafeRawPointer
    if let base = views[slot].base {
      start = UnsafeRawPointer(base)
    } else {
      start = try load(Address(slot: slot, offset: 0), count: count)
    }
    return UnsafeRawBufferPointer(start: start, count: count)
  }

  private func unreadable(
    _ address: Address, _ start: UnsafeRawPointer, _ length: Int
  ) -> StoreError {
    let checksum = RecordHeader.checksum(
      of: start, length: length, at: UInt64(address.offset), seed: views[address.slot].seed)
    let isSound = checksum == RecordHeader.storedChecksum(at: start)
    let error: FormatError =
      isSound
      ? FormatError(newer: "a record uses something unknown", at: UInt64(address.offset))
      : FormatError("a record's fields contradict each other", at: UInt64(address.offset))
    return StoreError(error, file: fileName(address.slot))
  }

  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64 {
    let record = try record(at: address)
    try verify(record, at: address)
    return KeyHash.hash(record.key, keyspace: record.header.keyspace, with: hashKey)
  }

  func damaged(_ address: Address, _ what: String) -> StoreError {
    let name = address.slot < count ? fileName(address.slot) : "index"
    return .corrupted(what, name, at: address.offset)
  }
}
