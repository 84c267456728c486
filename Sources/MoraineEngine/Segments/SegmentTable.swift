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
  /// The segments whose live records are still moving to other segments. Nil when there are none.
  private var retirement: Retirement?
  private var freeSlots: [Int] = []
  /// Segments that compaction could not read completely, and why. Compaction then leaves them out.
  private(set) var damage: [Int: StoreError] = [:]
  /// Segments that must be rewritten alone: a dictionary makes them so small that their records do
  /// not fit into one segment with others.
  private(set) var unmergeable: Set<Int> = []
  /// The records that expire, by slot; a slot without such records has no run.
  private var runs: [Int: ExpiryRun] = [:]
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

  /// Adds a segment that an index checkpoint covers after all others, in a slot that
  /// ``keepSlots(_:)`` has kept for it.
  mutating func append(_ view: SegmentView, _ info: SegmentInfo, in slot: Int) {
    precondition(slot < count, "a slot that was not kept")
    assert(!freeSlots.contains(slot), "a segment gets a slot that is free for others")
    views[slot] = view
    infos[slot] = info
    order.append(slot)
    noteUnreadExpiries(of: slot)
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
    let noSegment = SegmentInfo(number: SegmentNumber(rawValue: 0), epoch: 0, salt: 0)
    for _ in 0...last { _ = place(none, noSegment) }
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

  /// Records damage in the segment that the error names, if it is one of these. Damage elsewhere,
  /// which work on these segments may meet when it rebuilds the index, does not make them unsound.
  mutating func noteDamage(_ error: StoreError, among slots: [Int]) {
    for slot in slots where fileName(slot) == error.file { damage[slot] = error }
  }

  mutating func noteUnmergeable(_ slot: Int) { unmergeable.insert(slot) }

  /// Every segment that contains live records, including the segments that are being retired.
  var readingOrder: [Int] {
    guard let retirement else { return order }
    return order[..<retirement.place] + retirement.slots + order[retirement.place...]
  }

  /// The highest number of a record; 0 without records.
  var lastOperation: UInt64 {
    var last: UInt64 = 0
    for slot in readingOrder { last = max(last, self[slot].lastSequence) }
    return last
  }

  /// The segments with all changes of the log that the manifest lists. The output of a compaction
  /// lacks deletes, so its inputs count until a manifest lists the output.
  var feedOrder: [Int] {
    guard let retirement, !retirement.isListed else { return order }
    return readingOrder.filter { $0 != retirement.output }
  }

  /// Number of bytes in the segments of ``readingOrder``.
  var totalBytes: UInt64 { readingOrder.reduce(0) { $0 + UInt64(views[$1].end) } }

  /// Whether live records are still moving out of segments that are being retired.
  var isRetiring: Bool { retirement != nil }

  /// Replaces neighbours by one segment, or by none. The neighbours keep their slots until they are
  /// dropped.
  mutating func retire(_ range: Range<Int>, for slot: Int?) {
    precondition(!isRetiring, "two compactions replace segments at the same time")
    precondition(!range.isEmpty, "no segment is replaced")
    retirement = Retirement(Array(order[range]), place: range.lowerBound, output: slot)
    order.replaceSubrange(range, with: slot.map { [$0] } ?? [])
    assertOrder()
  }

  /// Notes that a manifest lists what has replaced the segments that are being retired.
  mutating func noteReplacementListed() { retirement?.isListed = true }

  /// Undoes ``retire(_:for:)``.
  mutating func reinstate(for slot: Int?) {
    guard let retirement else {
      preconditionFailure("segments are put back that were not replaced")
    }
    let range = retirement.place..<retirement.place + (slot == nil ? 0 : 1)
    precondition(slot == nil || order[range.lowerBound] == slot, "the order of segments changed")
    order.replaceSubrange(range, with: retirement.slots)
    self.retirement = nil
    assertOrder()
    if let slot { drop(slot) }
  }

  /// Removes a segment from the store, if it is still part of it, and frees its slot. No index
  /// entry names the segment any more.
  mutating func drop(_ slot: Int) {
    precondition(slot < count, "a segment without a slot is removed")
    assert(!freeSlots.contains(slot), "a segment is removed twice")
    order.removeAll { $0 == slot }
    retirement?.slots.removeAll { $0 == slot }
    if retirement?.slots.isEmpty == true { retirement = nil }
    runs[slot] = nil
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

// Records that expire.
extension SegmentTable {
  /// Adds a record that expires to the run of its segment.
  mutating func addExpiry(_ time: UInt64, at address: Address) {
    views[address.slot].earliestExpiry = min(time, views[address.slot].earliestExpiry)
    runs[address.slot, default: ExpiryRun()].add(time, address.offset)
  }

  /// Notes that an index checkpoint covers records of a segment which expire, and that these
  /// records were not read.
  mutating func noteUnreadExpiries(of slot: Int) {
    guard views[slot].earliestExpiry != .max else { return }
    runs[slot, default: ExpiryRun()].unreadEnd = views[slot].end
  }

  /// Removes the run of a segment whose records are about to be read again.
  mutating func forgetRun(of slot: Int) { runs[slot] = nil }

  /// Sets the run of a segment that compaction has written.
  mutating func setRun(_ run: ExpiryRun, of slot: Int) {
    assert(runs[slot] == nil, "a segment gets a second run of expiries")
    if run.count > 0 { runs[slot] = run }
  }

  /// Whether any record expires.
  var hasExpiries: Bool { !runs.isEmpty }

  /// A time before which no record expires; `UInt64.max` when no record expires.
  var earliestExpiry: UInt64 {
    runs.keys.reduce(.max) { min($0, views[$1].earliestExpiry) }
  }

  /// The earliest expiry of the records that can be deleted: those after damage are not known.
  var earliestKnownExpiry: UInt64 {
    runs.reduce(.max) { least, entry in
      min(
        least,
        entry.value.unreadEnd > 0
          ? views[entry.key].earliestExpiry : entry.value.earliest ?? .max)
    }
  }

  /// Returns the segments in which records have expired.
  func slotsWithExpired(through time: UInt64) -> [Int] {
    if runs.isEmpty { return [] }
    return readingOrder.filter { runs[$0] != nil && views[$0].earliestExpiry <= time }
  }

  /// Removes the next record of a segment that has expired from the segment's run, in which all of
  /// its records are.
  mutating func popExpired(through time: UInt64, in slot: Int) -> (time: UInt64, offset: Int)? {
    assert(runs[slot]?.unreadEnd ?? 0 == 0, "records that expire were not read yet")
    return runs[slot]?.popExpired(through: time)
  }

  /// Sets the earliest expiries of the segments after their expired records were deleted.
  mutating func settleExpiries() {
    for (slot, run) in runs where run.unreadEnd == 0 {
      views[slot].earliestExpiry = min(run.earliest ?? .max, run.damageFloor)
      if run.count == 0, run.damageFloor == .max { runs[slot] = nil }
    }
  }

  /// Whether an index checkpoint covers records of a segment that expire, and that were not read.
  func hasUnreadExpiries(of slot: Int) -> Bool { runs[slot].map { $0.unreadEnd > 0 } ?? false }

  /// Returns the offsets of the records of a segment that have expired. All are in its run.
  func expired(through time: UInt64, in slot: Int) -> [Int] {
    runs[slot]?.expired(through: time) ?? []
  }

  /// Reads the records that expire and that an index checkpoint covers.
  ///
  /// A damaged record ends the reading: the records after it are hidden when their time has come,
  /// but are not deleted before the segment is repaired.
  ///
  /// - Throws: the errors of reading, except `.corrupted`.
  /// - Complexity: O(bytes of the segment), the first time after opening; otherwise O(1).
  mutating func readExpiries(of slot: Int) throws(StoreError) {
    guard let end = runs[slot]?.unreadEnd, end > 0 else { return }
    var run = runs[slot] ?? ExpiryRun()
    run.unreadEnd = 0
    var offset = views[slot].firstOffset
    while offset < min(end, views[slot].operationsEnd) {
      let address = Address(slot: slot, offset: offset)
      do throws(StoreError) {
        let record = try entryRecord(at: address)
        if let time = record.expiryMilliseconds { run.add(time, offset) }
        offset += aligned(record.header.length)
      } catch {
        guard error.code == .corrupted else { throw error }
        noteDamage(error, among: [slot])
        run.damageFloor = views[slot].earliestExpiry
        break
      }
    }
    views[slot].earliestExpiry = min(run.earliest ?? .max, run.damageFloor)
    runs[slot] = run.count > 0 || run.damageFloor != .max ? run : nil
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

  func announce(_ part: LogPart) throws(StoreError) {
    if let mapping = infos[part.slot].mapping {
      return mapping.announceRead(from: part.start, to: min(part.end, views[part.slot].end))
    }
    let file = try files.file(for: part.slot, named: fileName(part.slot))
    try storing { () throws(StorageError) in
      try file.announceRead(from: part.start, to: min(part.end, views[part.slot].end))
    }
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

/// The facts about a segment that every operation needs.
struct SegmentView {
  /// The mapping, or nil where records are read with `read`.
  var base: UnsafeMutableRawPointer?
  /// Offset of the first record.
  let firstOffset: Int
  /// End of the last valid record.
  var end: Int
  /// End of the part in which operations begin. After it, a segment with a value of about 1 GiB may
  /// have marks and a footer, whose offsets an ``Address`` cannot hold.
  var operationsEnd: Int { min(end, StoreLimits.recordOffsetBytes) }
  let seed: Checksum
  /// Length of the dictionary that follows the fixed part of the header; 0 when there is none.
  var dictionaryLength = 0
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0
  private(set) var liveBytes: UInt64 = 0
  /// Live bytes, bounded for use in calculations. ``liveBytes`` can begin with the figure of a
  /// forged checkpoint, and then falls below zero.
  var boundedLiveBytes: Int { Int(truncatingIfNeeded: min(liveBytes, UInt64(end))) }
  /// Digest of the live records alone. When compaction has moved all of them elsewhere, it must be
  /// empty.
  private(set) var digest = StateDigest()
  /// Bytes of the deletes.
  var deleteBytes: UInt64 = 0
  /// The earliest expiry of a record, in milliseconds since 1970.
  var earliestExpiry = UInt64.max
  /// In a segment that compaction wrote: the sequence number up to which no delete hides a record
  /// of the segment.
  var cleanedThrough: UInt64 = 0
  /// Whether this process has counted the live records, and no checkpoint says how many they are.
  private(set) var isCounted = true
  /// Offset before which a compaction under way has selected the live records.
  private var selectedEnd = 0
  /// The records that were live when the compaction selected them, and have been replaced or
  /// deleted since.
  private(set) var replaced = LiveSum()

  /// Creates the view of an empty segment: its first record will begin at `end`.
  init(base: UnsafeMutableRawPointer?, end: Int, seed: Checksum) {
    self.base = base
    firstOffset = end
    self.end = end
    self.seed = seed
  }
}

/// The length and the digest of records together.
struct LiveSum: Equatable {
  var bytes: UInt64 = 0
  var digest = StateDigest()

  @inline(__always)
  mutating func add(_ size: UInt64, _ mixed: StateDigest) {
    bytes &+= size
    digest.add(mixed)
  }

  mutating func remove(_ other: LiveSum) {
    bytes &-= other.bytes
    digest.remove(other.digest)
  }
}

/// Segments outside the order whose live records are still moving to other segments.
///
/// An object, because the table must stay short: where its own size exceeds 128 bytes, each get
/// copies it by a call of `memcpy` twice.
private final class Retirement {
  var slots: [Int]
  /// The position in the order where these segments were.
  let place: Int
  /// The segment that has this position; nil when no record was copied.
  let output: Int?
  /// Whether a manifest lists what has replaced the segments.
  var isListed = false

  init(_ slots: [Int], place: Int, output: Int?) {
    (self.slots, self.place, self.output) = (slots, place, output)
  }
}

/// The other facts about a segment.
struct SegmentInfo {
  var number: SegmentNumber
  var epoch: UInt64
  var salt: UInt64
  var flags: Manifest.Segment.Flags = []
  var mapping: (any FileMapping)? { didSet { lent = nil } }
  /// What the last cut of the log has of the segment; nil for an open one, and for one that is not
  /// mapped.
  var lent: SegmentBytes?
  /// The dictionary, as it was when the header's checksum was verified. The checksums of the
  /// records do not cover the dictionary, so the bytes in a mapping are not read again. A
  /// thousandth of the data at most.
  var dictionary: [UInt8] = []

  /// Live bytes that a compaction has copied to this segment and not removed from their old
  /// segments yet.
  var incomingBytes: UInt64 = 0
  /// Whether compaction wrote the segment, and has looked for a dictionary then.
  var isCompacted: Bool { flags.contains(.compacted) }
  /// Whether the records of ordered keyspaces lie in the order of their keys, so that sequence
  /// numbers do not rise.
  var isClustered: Bool { flags.contains(.clustered) }

  func entry(_ view: SegmentView) -> Manifest.Segment {
    var entry = Manifest.Segment(number: number, epoch: epoch)
    entry.flags = flags
    guard flags.contains(.sealed) else { return entry }
    entry.lengthBytes = UInt64(view.end)
    entry.recordCount = view.recordCount
    entry.firstSequence = SequenceNumber(rawValue: view.firstSequence)
    entry.lastSequence = SequenceNumber(rawValue: view.lastSequence)
    entry.liveBytes = liveBytes(view)
    return entry
  }

  /// The live bytes as a manifest lists them.
  func liveBytes(_ view: SegmentView) -> UInt64 {
    min(UInt64(view.boundedLiveBytes) + incomingBytes, UInt64(view.end))
  }
}

extension SegmentView {
  /// Adds the sequence number of an appended record, which is the highest of the segment, to the
  /// range of these numbers.
  @inline(__always)
  mutating func countAppended(_ sequence: UInt64) {
    if firstSequence == 0 { firstSequence = sequence }
    lastSequence = sequence
  }

  /// Adds the sequence number of a record to the range of these numbers.
  @inline(__always)
  mutating func count(_ sequence: UInt64) {
    if sequence > lastSequence { lastSequence = sequence }
    if firstSequence == 0 || sequence < firstSequence { firstSequence = sequence }
  }

  /// Counts a record of the segment that became live.
  ///
  /// - Parameters:
  ///   - size: length of the record, in bytes.
  ///   - mixed: the record's part of the digest.
  @inline(__always)
  mutating func gain(_ size: UInt64, _ mixed: StateDigest) {
    liveBytes &+= size
    digest.add(mixed)
  }

  /// Subtracts a record of the segment that is no longer live.
  ///
  /// - Parameter offset: the offset of the record.
  @inline(__always)
  mutating func lose(_ size: UInt64, _ mixed: StateDigest, at offset: Int) {
    liveBytes &-= size
    digest.remove(mixed)
    if offset < selectedEnd { replaced.add(size, mixed) }
  }

  /// The live records.
  var live: LiveSum { LiveSum(bytes: liveBytes, digest: digest) }

  /// Records that a compaction begins, which has selected no record yet.
  mutating func beginSelection() { (selectedEnd, replaced) = (0, LiveSum()) }

  /// Records that a compaction has selected the live records before an offset.
  mutating func select(before offset: Int) {
    assert(offset > selectedEnd, "a compaction selects records twice")
    selectedEnd = offset
  }

  /// Applies the figures of the segment in a checkpoint. A forged one could make a compaction drop
  /// a delete that the log needs: the segment's header, which is part of the log, must agree.
  mutating func adopt(_ covered: CheckpointHeader.Segment, _ header: SegmentHeader) {
    end = Int(clamping: covered.endOffset)
    recordCount = covered.recordCount
    firstSequence = covered.firstSequence
    lastSequence = covered.lastSequence
    liveBytes = covered.liveBytes
    digest = covered.digest
    deleteBytes = covered.deleteBytes
    earliestExpiry = covered.earliestExpiry
    cleanedThrough = min(covered.cleanedThrough, header.cleanedThrough)
    isCounted = false
  }

  /// Resets the figures to those of a segment of which no record was read.
  mutating func forgetFigures() {
    end = firstOffset
    (recordCount, firstSequence, lastSequence) = (0, 0, 0)
    (liveBytes, deleteBytes, digest) = (0, 0, StateDigest())
    (earliestExpiry, cleanedThrough, isCounted) = (.max, 0, true)
    beginSelection()
  }

  /// Returns whether the manifest counts the records that were read.
  func agrees(with entry: Manifest.Segment) -> Bool {
    recordCount == entry.recordCount && firstSequence == entry.firstSequence.rawValue
      && lastSequence == entry.lastSequence.rawValue
  }

  /// Returns whether both views count the same records.
  func hasFigures(of other: SegmentView) -> Bool {
    recordCount == other.recordCount && firstSequence == other.firstSequence
      && lastSequence == other.lastSequence
  }

  /// Returns the segment's figures for a checkpoint.
  func covered(_ info: SegmentInfo, slot: Int, end: Int) -> CheckpointHeader.Segment {
    var result = CheckpointHeader.Segment(number: info.number)
    result.slot = UInt32(slot)
    result.salt = info.salt
    result.epoch = info.epoch
    result.endOffset = UInt64(end)
    result.recordCount = recordCount
    result.firstSequence = firstSequence
    result.lastSequence = lastSequence
    result.liveBytes = liveBytes
    result.digest = digest
    result.deleteBytes = deleteBytes
    result.earliestExpiry = earliestExpiry
    result.cleanedThrough = cleanedThrough
    return result
  }
}
