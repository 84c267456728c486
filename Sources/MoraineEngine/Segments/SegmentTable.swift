import MoraineFormat
import MoraineStorage

/// The segments of a store, by the slots that addresses contain.
struct SegmentTable: ~Copyable, RehashSource, RecordSource {
  private(set) var count = 0
  var views: UnsafeMutablePointer<SegmentView>
  private var capacity = 16
  var infos: [SegmentInfo] = []
  /// Slots of the segments that make up the store, in replay order: by sequence number.
  private(set) var order: [Int] = []
  /// Segments outside the order whose live records are still moving to other segments, and the
  /// position in the order where these segments were.
  private var retiring: (slots: [Int], place: Int) = ([], 0)
  private var freeSlots: [Int] = []
  /// Segments that compaction could not read completely, and why. Compaction then leaves them out.
  private(set) var damage: [Int: StoreError] = [:]
  /// Segments that must be rewritten alone: a dictionary makes them so small that their records do
  /// not fit into one segment with others.
  private(set) var unmergeable: Set<Int> = []
  let files: FileCache
  let dictionaries = DictionaryCache()
  let hashKey: HashKey
  let scratch = ScratchBuffer()

  /// - Parameter isAlone: whether no other process changes the directory while this table exists.
  init(directory: any StorageDirectory, hashKey: HashKey, isAlone: Bool) {
    self.hashKey = hashKey
    views = .allocate(capacity: capacity)
    files = FileCache(directory: directory, mayPark: isAlone)
  }

  deinit { views.deallocate() }

  subscript(slot: Int) -> SegmentView {
    @inline(__always)
    _read { yield views[slot] }
    @inline(__always)
    nonmutating _modify { yield &views[slot] }
  }

  /// Adds a segment after all others.
  ///
  /// - Returns: its slot.
  mutating func append(_ view: SegmentView, _ info: SegmentInfo) -> Int {
    let slot = place(view, info)
    order.append(slot)
    assertOrder()
    return slot
  }

  /// Adds a segment after all others, in a slot that ``keepSlots(_:)`` has kept for it.
  mutating func append(_ view: SegmentView, _ info: SegmentInfo, in slot: Int) {
    precondition(slot < count, "a slot that was not kept")
    assert(!freeSlots.contains(slot), "a segment gets a slot that is free for others")
    views[slot] = view
    infos[slot] = info
    order.append(slot)
    assertOrder()
  }

  /// Checks that each segment has one place, and that no free slot has one.
  private func assertOrder() {
    // The checks of a large table take too long.
    if count > 1000 { return }
    assert(Set(order).count == order.count, "a segment is listed twice")
    assert(Set(order).isDisjoint(with: freeSlots), "a segment without a slot is listed")
    assert(Set(freeSlots).count == freeSlots.count, "a slot is free twice")
  }

  /// Sorts the segments by the positions of their numbers in `numbers`.
  mutating func arrange(by numbers: [SegmentNumber]) {
    let ranks = Dictionary(
      numbers.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    assert(order.allSatisfy { ranks[infos[$0].number] != nil }, "a segment has no rank")
    order.sort { (ranks[infos[$0].number] ?? 0) < (ranks[infos[$1].number] ?? 0) }
  }

  /// Keeps slots of an empty table for segments that the index already names.
  mutating func keepSlots(_ kept: Set<Int>) {
    guard let last = kept.max() else { return }
    precondition(count == 0, "slots are kept in a table that has segments")
    precondition(last < StoreLimits.segmentCount, "a kept slot lies after the last possible one")
    let none = SegmentView(base: nil, end: 0, seed: Checksum())
    let nobody = SegmentInfo(number: SegmentNumber(rawValue: 0), epoch: 0, salt: 0)
    for _ in 0...last { _ = place(none, nobody) }
    freeSlots = (0...last).filter { !kept.contains($0) }
  }

  /// Number of segments that can still be added.
  var vacancyCount: Int { StoreLimits.segmentCount - count + freeSlots.count }

  static let full = StoreError(
    .noSpace,
    "a store has at most \(StoreLimits.segmentCount) segments; set a larger segment size and compact"
  )

  /// Assigns a slot to a segment, without making the segment part of the store yet.
  mutating func place(_ view: SegmentView, _ info: SegmentInfo) -> Int {
    if let slot = freeSlots.popLast() {
      views[slot] = view
      infos[slot] = info
      return slot
    }
    precondition(count < StoreLimits.segmentCount, "more than a million segments")
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

  /// Records the damage for which segments could not be rewritten together.
  mutating func noteDamage(_ error: StoreError, among slots: [Int]) {
    let named = slots.filter { fileName($0) == error.file }
    for slot in named.isEmpty ? slots : named { damage[slot] = error }
  }

  mutating func noteUnmergeable(_ slot: Int) { unmergeable.insert(slot) }

  /// Every segment that contains live records, including the segments that are being retired.
  var readingOrder: [Int] {
    retiring.slots.isEmpty
      ? order : order[..<retiring.place] + retiring.slots + order[retiring.place...]
  }

  /// Whether live records are still moving out of segments that are being retired.
  var isRetiring: Bool { !retiring.slots.isEmpty }

  /// Replaces neighbours by one segment, or by none. The neighbours keep their slots until they are
  /// dropped.
  mutating func retire(_ range: Range<Int>, for slot: Int?) {
    precondition(!isRetiring, "two compactions replace segments at the same time")
    precondition(!range.isEmpty, "no segment is replaced")
    retiring = (Array(order[range]), range.lowerBound)
    order.replaceSubrange(range, with: slot.map { [$0] } ?? [])
    assertOrder()
  }

  /// Undoes ``retire(_:for:)``.
  mutating func reinstate(for slot: Int?) {
    precondition(isRetiring, "segments are put back that were not replaced")
    let range = retiring.place..<retiring.place + (slot == nil ? 0 : 1)
    precondition(slot == nil || order[range.lowerBound] == slot, "the order of segments changed")
    order.replaceSubrange(range, with: retiring.slots)
    retiring = ([], 0)
    assertOrder()
    if let slot { drop(slot) }
  }

  /// Removes a segment from the store, if it is still part of it, and frees its slot. No index
  /// entry names the segment any more.
  mutating func drop(_ slot: Int) {
    precondition(slot < count, "a segment without a slot is removed")
    assert(!freeSlots.contains(slot), "a segment is removed twice")
    order.removeAll { $0 == slot }
    retiring.slots.removeAll { $0 == slot }
    files.forget(slot)
    dictionaries.forget(slot)
    damage[slot] = nil
    unmergeable.remove(slot)
    infos[slot].mapping = nil
    infos[slot].dictionary = []
    views[slot] = SegmentView(base: nil, end: 0, seed: views[slot].seed)
    freeSlots.append(slot)
  }
}

extension SegmentTable {
  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  func dictionary(of slot: Int) -> [UInt8] { infos[slot].dictionary }

  /// Keeps a file open for reads of a slot, so that they need not open it by name.
  func cache(_ file: any StorageFile, for slot: Int) { files.keep(file, for: slot) }

  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    let target = scratch.reserve(count)
    let file = try files.file(for: address.slot, named: fileName(address.slot))
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(address.offset))
    }
    guard got == count, let base = target.baseAddress else {
      throw damaged(address, "the file ends before its last record")
    }
    return UnsafeRawPointer(base)
  }

  /// Returns the first bytes of a segment, valid until the next call.
  func bytes(of slot: Int, count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
    let start: UnsafeRawPointer
    if let base = views[slot].base {
      start = UnsafeRawPointer(base)
    } else {
      start = try load(Address(slot: slot, offset: 0), count: count)
    }
    return UnsafeRawBufferPointer(start: start, count: count)
  }

  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64 {
    let record = try record(at: address)
    try verify(record, at: address)
    return KeyHash.hash(record.key, keyspace: record.header.keyspace, with: hashKey)
  }
}
