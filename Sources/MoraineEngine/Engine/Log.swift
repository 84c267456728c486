import MoraineFormat
import MoraineStorage
import Synchronization

/// The segments of a store, and the position at which the next record is appended.
///
/// Owns the segment table, the active segment, the manifest and the reserved space. Knows nothing
/// of keys: what its records mean is the concern of ``LiveIndex``.
struct Log: ~Copyable {
  let directory: any StorageDirectory
  let configuration: Store.Configuration
  let pipeline: CommitPipeline
  /// The lock that this process holds on the directory. Jobs that outlive the store keep it.
  let lock: (any StorageFile)?
  /// The link to the other processes that have the store open.
  var link: SharedLink?
  var table: SegmentTable
  var active: ActiveSegment? {
    didSet {
      position.slot = active?.slot ?? -1
      position.roomEnd = active?.roomEnd ?? 0
      position.putEnd = reserve.isFull ? position.roomEnd : 0
      position.isMapped = active?.allocated != nil
    }
  }
  /// The fields of `active` that appends need, without its references.
  private(set) var position = AppendPosition()
  var manifest: Manifest
  /// The next segment, where it was created ahead of need.
  var spare: SpareSegment?
  /// The space that is reserved for deletes.
  var reserve: Reserve {
    didSet { position.putEnd = reserve.isFull ? position.roomEnd : 0 }
  }
  /// Sequence number of the last record.
  var lastSequence: UInt64 = 0
  /// Number of bytes that this process has appended.
  private(set) var appendedBytes: UInt64 = 0
  private let writeScratch = ScratchBuffer()

  init(
    directory: any StorageDirectory, lock: (any StorageFile)?, manifest: Manifest,
    configuration: Store.Configuration, pipeline: CommitPipeline
  ) {
    self.directory = directory
    self.lock = lock
    self.manifest = manifest
    self.configuration = configuration
    self.pipeline = pipeline
    table = SegmentTable(
      directory: directory, hashKey: manifest.hashKey, isAlone: configuration.isAlone)
    reserve = Reserve(directory: directory)
  }
}

extension Log {
  /// Returns whether `count` bytes of records fit at the append position.
  @inline(__always)
  func hasRoom(for count: Int) -> Bool {
    position.slot >= 0 && table[position.slot].end &+ count <= position.roomEnd
  }

  /// Returns the same for operations that may need more space than they free.
  @inline(__always)
  func hasRoom(forPuts count: Int) -> Bool {
    position.slot >= 0 && table[position.slot].end &+ count <= position.putEnd
  }

  /// Returns the step that must precede an append of `count` bytes.
  func capacity(for count: Int) -> AppendCapacity {
    if hasRoom(for: count) { return .enough }
    guard let active, !active.hasFooter else { return .rotate }
    let end = table[active.slot].end + count
    if end <= active.allocationEnd { return .pause }
    if active.allocated == nil { return .rotate }
    if end <= active.hardEnd { return .extendAhead }
    return end + ActiveSegment.reservedBytes > active.limit ? .rotate : .extend
  }

  /// Appends a record after the last one. Room was made before; nothing here waits.
  ///
  /// - Throws: `.noSpace` or `.io` in positional mode. The bytes are then cut off; if that fails
  ///   too, the store is poisoned.
  /// - Returns: the address of the record.
  // With `@inline(__always)` a put still calls this function, and passes the draft in memory: 70
  // instructions of 2,800.
  @_transparent
  mutating func append(_ draft: RecordDraft) throws(StoreError) -> Address {
    precondition(position.slot >= 0, "append without an active segment")
    let view = table[position.slot]
    let end = view.end
    if let base = view.base, position.isMapped {
      if draft.length < Self.writtenLength {
        draft.write(to: base + end, at: UInt64(truncatingIfNeeded: end), seed: view.seed)
      } else {
        appendByCall(draft, to: base + end, at: end)
      }
    } else {
      try appendToFile(draft, at: end)
    }
    let length = aligned(draft.length)
    assert(end % 4 == 0, "a record begins at an offset that is no multiple of 4")
    table[position.slot].end = end &+ length
    appendedBytes &+= UInt64(truncatingIfNeeded: length)
    return Address(slot: position.slot, offset: end)
  }

  /// Length from which on a system call writes a record, into a mapped segment too. The call fills
  /// many pages of the file at a time, and a mapping takes a fault for each page.
  private static var writtenLength: Int { 64 << 10 }

  private mutating func appendByCall(
    _ draft: RecordDraft, to target: UnsafeMutableRawPointer, at end: Int
  ) {
    guard let active else { return assertionFailure("an append without an active segment") }
    assert(!active.hasFooter || draft.kind == .footer, "a record follows the footer")
    position.hasCalled = true
    do throws(StorageError) {
      try write(draft, at: end, to: active)
    } catch {
      // The space is allocated, and the mapping accepts the same bytes. A device that fails reports
      // the error again when the bytes are synced.
      draft.write(to: target, at: UInt64(end), seed: table[active.slot].seed)
    }
  }

  /// Length from which on a record is written to its file in two parts, so that no second copy of a
  /// large value is made. A failure between the parts leaves the same state as a failure within
  /// one: a record whose checksum does not match, which the caller cuts off or overwrites.
  private static var piecewiseLength: Int { 256 << 10 }

  private func write(
    _ draft: RecordDraft, at end: Int, to active: ActiveSegment
  ) throws(StorageError) {
    guard draft.length >= Self.piecewiseLength else {
      return try active.file.write(encoded(draft, at: end, for: active), at: UInt64(end))
    }
    let head = draft.encodedHead(at: UInt64(end), seed: table[active.slot].seed)
    try active.file.write(draft.stored, at: UInt64(end + head.count))
    let padding = aligned(draft.length) - draft.length
    if padding > 0 {
      let zeros = [UInt8](repeating: 0, count: padding)
      try zeros.withBytes { (bytes) throws(StorageError) in
        try active.file.write(bytes, at: UInt64(end + draft.length))
      }
    }
    // The head comes last: until it is written, the place reads as "nothing here".
    try head.withBytes { (bytes) throws(StorageError) in
      try active.file.write(bytes, at: UInt64(end))
    }
  }

  /// Returns the record as its file will contain it; valid until the next call.
  private func encoded(
    _ draft: RecordDraft, at end: Int, for active: ActiveSegment
  ) -> UnsafeRawBufferPointer {
    let total = aligned(draft.length)
    let buffer = writeScratch.reserve(total)
    guard let base = buffer.baseAddress else { return UnsafeRawBufferPointer(buffer) }
    // The draft writes all other bytes.
    (base + total - 4).storeBytes(of: 0, as: UInt32.self)
    draft.write(to: base, at: UInt64(end), seed: table[active.slot].seed)
    return UnsafeRawBufferPointer(buffer)
  }

  private func appendToFile(_ draft: RecordDraft, at end: Int) throws(StoreError) {
    guard let active else { return }
    do throws(StorageError) {
      try write(draft, at: end, to: active)
    } catch {
      // Nothing was written, so nothing must be cut off, which would take a descriptor too.
      if error.lacksDescriptor, draft.length < Self.piecewiseLength { throw StoreError(error) }
      try cutFailedWrite(to: end, active, after: error)
    }
  }

  /// Removes what a failed write has left. A file that has not grown is not cut: on a full disk the
  /// file system may need a block even for that, and the failure would poison the store.
  private func cutFailedWrite(
    to end: Int, _ active: ActiveSegment, after cause: StorageError
  ) throws(StoreError) {
    if ends(at: end, active.file) { throw StoreError(cause) }
    do throws(StorageError) {
      try active.file.truncate(to: UInt64(end))
    } catch {
      let failure = StoreError(error)
      pipeline.poison(failure)
      throw failure
    }
    throw StoreError(cause)
  }

  /// Whether the file is known to contain nothing after an offset.
  private func ends(at end: Int, _ file: any StorageFile) -> Bool {
    do throws(StorageError) { return try file.lengthBytes() <= UInt64(end) } catch {
      // To cut the file is right in either case, and reports whether that failed.
      return false
    }
  }

  /// Offset at which the next record is appended to the active segment.
  var end: Int { table[position.slot].end }

  /// Removes the records from an offset of the active segment on: a part of a batch must not stay
  /// where the next record is written. Poisons the store when the file cannot be cut.
  mutating func removeRecords(from start: Int) {
    precondition(start <= end, "records are removed after the end of the log")
    table[position.slot].end = start
    do throws(StorageError) { try active?.file.truncate(to: UInt64(start)) } catch {
      pipeline.poison(StoreError(error))
    }
  }

  /// Continues to append to a segment that another process has appended to.
  mutating func adopt(tail: ActiveSegment, markedOffset: Int) {
    assert(!tail.hasFooter, "a segment with a footer accepts no records")
    assert(markedOffset <= table[tail.slot].end, "a mark promises bytes that do not exist")
    active = tail
    position.markedOffset = markedOffset
  }

  /// Counts bytes that a follower has taken from an archive.
  mutating func countIngested(bytes: Int) { appendedBytes &+= UInt64(bytes) }

  /// Continues the count of a log that this process has left.
  mutating func continueCount(after bytes: UInt64) { appendedBytes &+= bytes }

  /// Continues the counts of the log that this one replaces: the same files, read again.
  ///
  /// - Parameter isWhole: false when a replay of the other log has failed. Its last number may then
  ///   be one of records that were applied in part and must be replayed; all numbers that were used
  ///   up are in the shared page.
  mutating func continueCounts(of other: borrowing Log, isWhole: Bool) {
    appendedBytes = other.appendedBytes
    if isWhole { lastSequence = max(lastSequence, other.lastSequence) }
  }

  /// Appends a sync mark when more has become durable since the last mark.
  ///
  /// - Parameter digest: the digest of the live records.
  @inline(__always)
  mutating func appendSyncMarkIfDue(_ digest: StateDigest) throws(StoreError) {
    let durable = Int(truncatingIfNeeded: pipeline.durableOffset.load(ordering: .relaxed))
    guard durable > position.markedOffset else { return }
    assert(durable <= end, "more bytes are durable than were appended")
    try appendSyncMark(durable, digest)
  }

  private mutating func appendSyncMark(
    _ durable: Int, _ digest: StateDigest
  ) throws(StoreError) {
    let mark = SyncMark(
      durableOffset: UInt64(durable), wallMilliseconds: SystemClock.wallMilliseconds(),
      digest: digest)
    try appendSystemRecord(.syncMark, mark.encoded())
    position.markedOffset = durable
  }

  mutating func appendSystemRecord(
    _ kind: RecordKind, _ payload: [UInt8]
  ) throws(StoreError) {
    let empty = UnsafeRawBufferPointer(start: nil, count: 0)
    let sequence = lastSequence
    var failure: StoreError?
    payload.withUnsafeBytes { bytes in
      let draft = RecordDraft(sequence: sequence, kind: kind, key: empty, stored: bytes)
      do throws(StoreError) { _ = try append(draft) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// Publishes the end of the log to the committing thread.
  @inline(__always)
  func publish() {
    let end = UInt64(truncatingIfNeeded: table[position.slot].end)
    pipeline.publish(sequence: lastSequence, offset: end)
  }

  /// Returns the end of the last operation in an open segment. A sync mark may follow it whose
  /// operation could not be appended: no sync covers that mark before the next operation.
  func publishedEnd(of slot: Int) -> Int {
    let end = table[slot].end
    // What other processes append is not published here.
    guard link == nil, active?.slot == slot else { return end }
    // Relaxed: the caller is the writer, which is the only one to store it.
    let published = pipeline.appendedOffset.load(ordering: .relaxed)
    assert(published <= UInt64(end), "an operation ends after the log")
    return Int(truncatingIfNeeded: published)
  }

  /// Counts a record that was appended, in the figures of its segment.
  @inline(__always)
  func countRecord(
    _ sequence: UInt64, _ effect: RecordKind.Effect, length: Int, in slot: Int
  ) {
    assert(
      sequence > table[slot].lastSequence, "sequence numbers in a segment do not ascend")
    countBytes(effect, length: length, in: slot)
    table[slot].countAppended(sequence)
  }

  /// Counts a record that was read, in the figures of its segment.
  @inline(__always)
  func countReplayed(_ header: RecordHeader, in slot: Int) {
    assert(
      header.sequence > table[slot].lastSequence || table.infos[slot].isClustered,
      "sequence numbers in a segment do not ascend")
    countBytes(header.kind.effect, length: header.length, in: slot)
    table[slot].count(header.sequence)
  }

  @inline(__always)
  private func countBytes(_ effect: RecordKind.Effect, length: Int, in slot: Int) {
    assert(effect != .none, "only records with a key are counted")
    if effect == .removes {
      table[slot].deleteBytes &+= UInt64(truncatingIfNeeded: aligned(length))
    }
    table[slot].recordCount &+= 1
  }
}

extension Log {
  /// Largest step, small enough that a writer that waits for an allocation does not wait long.
  static let largestStep = 2 << 20
  /// Lower bound of ``fittingSegmentBytes(liveBytes:)``: small segments cost a sync and two
  /// manifests each.
  static let smallSegmentBytes = 8 << 20

  /// Returns the job that creates the next segment, for a unit of `count` bytes. The number of the
  /// segment is used up from now on.
  ///
  /// - Parameters:
  ///   - liveBytes: bytes of the live records; small stores have small segments.
  ///   - isAhead: whether the segment is created before the active segment ends. Its header then
  ///     names no predecessor.
  mutating func nextSegmentCreation(
    for count: Int, liveBytes: UInt64, isAhead: Bool = false
  ) -> SegmentCreation {
    assert(
      active == nil || active!.hasFooter || isAhead, "a segment gets a successor before its footer")
    let number = takeSegmentNumber()
    var header = SegmentHeader(
      storeID: manifest.storeID, epoch: manifest.epoch, number: number,
      salt: SystemRandom.number())
    header.generation = manifest.generation + 1
    header.createdMilliseconds = SystemClock.wallMilliseconds()
    if !isAhead, let last = table.order.last {
      header.predecessor = SegmentHeader.Predecessor(
        number: table.infos[last].number.rawValue, lengthBytes: UInt64(table[last].end),
        lastSequence: SequenceNumber(rawValue: lastSequence))
    }
    let needed = header.headerLength + count + ActiveSegment.reservedBytes
    let limit = max(
      min(
        configuration.segmentSizeBytes, Self.fittingSegmentBytes(liveBytes: liveBytes)), needed)
    let wish = max(
      ActiveSegment.smallestAllocation, min(Self.largestStep, Int(clamping: liveBytes / 8)))
    let first = min(limit, max(needed, wish))
    return SegmentCreation(
      directory: directory, header: header, wantedLimit: limit,
      wantedGrowth: link == nil ? configuration.segmentSizeBytes : limit,
      firstAllocation: FileBlock.covering(first), neededBytes: needed,
      wantsMapping: configuration.ioMode == .mapped, prefaulting: nextPrefaulting(),
      isOneTooMany: table.vacancyCount < 2)
  }

  /// Segment size that fits the store: a sixteenth of the live bytes, within bounds. The active
  /// segment cannot be compacted, so in a small store a large one would be most of the store.
  static func fittingSegmentBytes(liveBytes: UInt64) -> Int {
    max(smallSegmentBytes, Int(clamping: liveBytes / 16))
  }

  /// Adds a new segment to the table, and makes it the active segment.
  ///
  /// - Returns: the segment that was active before, with its footer written.
  mutating func adopt(
    _ created: SegmentCreation.Created, _ creation: SegmentCreation
  ) -> (segment: ActiveSegment, markedOffset: Int)? {
    let before = active.map { ($0, position.markedOffset) }
    precondition(before?.0.hasFooter != false, "a segment is replaced before its footer is written")
    let header = creation.header
    let length = header.headerLength
    let slot = table.append(
      SegmentView(base: created.mapping?.base, end: length, seed: header.checksumSeed),
      creation.info(of: created))
    if created.mapping == nil { table.cache(created.file, for: slot) }
    if configuration.isAlone { created.file.allowParking() }
    active = ActiveSegment(
      slot: slot, file: created.file, mapping: created.mapping, allocated: created.allocated,
      limit: created.limit, growthLimit: created.growthLimit, step: creation.firstAllocation,
      softEnd: link == nil ? (created.allocated ?? 0) / 2 : .max,
      middle: link == nil ? created.limit / 2 : .max)
    position.markedOffset = length
    return before
  }

  /// Returns how far to allocate so that `count` bytes fit: doubling, up to the segment's end.
  func extensionTargets(for count: Int) -> (wish: Int, least: Int)? {
    guard let active, let allocated = active.allocated else { return nil }
    let needed = table[active.slot].end + count + ActiveSegment.reservedBytes
    let top = FileBlock.covering(active.limit)
    let least = min(top, FileBlock.covering(needed))
    assert(allocated <= top, "more is allocated than the segment may hold")
    return (min(top, max(least, allocated + min(active.step, Self.largestStep))), least)
  }

  mutating func extended(to allocated: Int) {
    guard let before = active?.allocated else { return }
    let gain = allocated - before
    assert(gain >= 0, "an allocation makes a segment shorter")
    assert(allocated % FileBlock.lengthBytes == 0, "a part of a block is allocated")
    active?.allocated = allocated
    // In a shared store nothing is allocated after the lock is released.
    let isAlone = link == nil
    active?.softEnd = isAlone ? allocated - gain / 2 : .max
    active?.step = min(Self.largestStep, max(ActiveSegment.smallestAllocation, gain * 2))
  }

  mutating func extensionWork(for count: Int) -> ExtensionWork? {
    guard let active, let allocated = active.allocated, let targets = extensionTargets(for: count)
    else { return nil }
    return ExtensionWork(
      file: active.file, mapping: active.mapping, from: allocated, wish: targets.wish,
      least: targets.least, prefaulting: nextPrefaulting())
  }

  /// Returns the prefaulting that suits the work since the last call.
  mutating func nextPrefaulting() -> Prefaulting {
    let syncCount = pipeline.syncCount
    defer { (position.hasCalled, position.syncCount) = (false, syncCount) }
    if position.hasCalled || syncCount >= position.syncCount + 2 { return .none }
    return link == nil ? .filling : .touching
  }

  /// Begins to allocate more space while appending continues.
  mutating func extendAhead() {
    guard let work = extensionWork(for: 0) else { return }
    let ticket = ExtensionTicket()
    let lock = lock
    pipeline.allocations.enqueue { refusal in
      guard refusal == nil else { return }
      // Hold the lock, so that no other opening gets the directory while the job runs, even if the
      // store no longer exists.
      defer { withExtendedLifetime(lock) {} }
      do throws(StorageError) {
        ticket.allocatedEnd.store(try work.run(), ordering: .releasing)
      } catch {
        // A writer that needs the space asks again, waits, and gets the error.
      }
    }
    assert(active?.ticket == nil, "two allocations ahead are under way")
    active?.ticket = ticket
  }

  /// Uses the space of ``extendAhead()``, if the allocation has succeeded.
  mutating func redeemTicket() {
    guard let ticket = active?.ticket, let allocated = active?.allocated else { return }
    let end = ticket.allocatedEnd.load(ordering: .acquiring)
    active?.ticket = nil
    if end > allocated { extended(to: end) }
  }
}

extension Log {
  /// Removes a segment that no manifest lists, and makes the segment before it active again.
  ///
  /// - Returns: the result of ``returnNumber(_:)`` for the removed segment.
  mutating func abandonActive(
    for before: (segment: ActiveSegment, markedOffset: Int)?
  ) -> Bool {
    let abandoned = active?.slot
    var isReturned = false
    if let abandoned { isReturned = returnNumber(table.infos[abandoned].number) }
    active = before?.segment
    if let abandoned { table.drop(abandoned) }
    position.markedOffset = before?.markedOffset ?? 0
    return isReturned
  }

  mutating func takeSegmentNumber() -> SegmentNumber {
    let least = manifest.nextSegmentNumber
    let number = link?.page.takeSegmentNumber(least) ?? least
    assert(number >= least, "a segment number is used twice")
    manifest.nextSegmentNumber = number &+ 1
    return SegmentNumber(rawValue: number)
  }

  /// Makes a number available again. The next attempt then takes the same number, and removes the
  /// file that the last attempt left, unless another number was taken since. Keeps the number used
  /// up when the publication of the manifest failed half-way, because the manifest may list it, and
  /// in a shared store.
  ///
  /// - Returns: whether the next segment gets the number. If not, nothing replaces the file.
  @discardableResult
  mutating func returnNumber(_ number: SegmentNumber) -> Bool {
    if pipeline.hasPoison || link != nil { return false }
    assert(number.rawValue < manifest.nextSegmentNumber, "a number is returned that was not taken")
    guard manifest.nextSegmentNumber == number.rawValue &+ 1 else { return false }
    manifest.nextSegmentNumber = number.rawValue
    return true
  }
}

// Manifests, footers and seals.
extension Log {
  func publisher() -> ManifestPublisher {
    ManifestPublisher(directory: directory, pipeline: pipeline)
  }

  /// Returns the manifest of the present state.
  ///
  /// - Parameter sealing: the segment that has its footer but is not durable yet, and the offset up
  ///   to which its log has marked itself durable. Until the segment is durable, the manifest
  ///   states no later offset as durable.
  func nextManifest(
    sealing: (segment: ActiveSegment, markedOffset: Int)? = nil, digest: StateDigest
  ) -> Manifest {
    var next = nextManifestWithoutSegments()
    next.segments = table.order.map { table.infos[$0].entry(table[$0]) }
    if let spare { next.segments.append(spare.entry) }
    if let slot = sealing?.segment.slot ?? active?.slot {
      next.watermarkSegment = table.infos[slot].number.rawValue
      // The offset that the log itself has marked. The pipeline's own offset may still be that of
      // the last segment.
      next.watermarkOffset = UInt64(sealing?.markedOffset ?? position.markedOffset)
      next.digest = StateDigest()
    } else {
      next.watermarkSegment = 0
      next.watermarkOffset = 0
      next.digest = digest
    }
    return next
  }

  /// Returns the part of ``nextManifest(sealing:digest:)`` that takes the same time for all stores.
  func nextManifestWithoutSegments() -> Manifest {
    var next = manifest
    next.generation += 1
    next.lastSequence = SequenceNumber(rawValue: lastSequence)
    next.createdMilliseconds = SystemClock.wallMilliseconds()
    next.segments = []
    return next
  }

  /// Adopts a manifest that was published. Since it was made, numbers may have been used up, and
  /// the index may have been rebuilt because digests in the log are wrong.
  mutating func adoptManifest(_ next: Manifest) {
    precondition(next.storeID == manifest.storeID, "the manifest of another store is adopted")
    precondition(next.generation >= manifest.generation, "an older manifest is adopted")
    let number = max(manifest.nextSegmentNumber, next.nextSegmentNumber)
    let compactedThrough = max(manifest.compactedThrough, next.compactedThrough)
    manifest = next
    manifest.nextSegmentNumber = number
    manifest.compactedThrough = compactedThrough
  }

  /// Writes the footer of the active segment, which then accepts no more records.
  ///
  /// - Parameter digest: the digest of the live records.
  mutating func appendFooter(_ digest: StateDigest) throws(StoreError) {
    guard let active, !active.hasFooter else { return }
    let view = table[active.slot]
    let footer = SegmentFooter(
      recordCount: view.recordCount, firstSequence: SequenceNumber(rawValue: view.firstSequence),
      lastSequence: SequenceNumber(rawValue: view.lastSequence),
      wallMilliseconds: SystemClock.wallMilliseconds(), digest: digest)
    try appendSystemRecord(.footer, footer.encoded())
    self.active?.hasFooter = true
  }

  /// Returns the work that remains for a segment that has its footer, on the committing thread.
  private func sealWork(_ segment: ActiveSegment) -> SealWork {
    SealWork(
      number: table.infos[segment.slot].number, file: segment.file, mapping: segment.mapping,
      lengthBytes: UInt64(table[segment.slot].end),
      lastSequence: table[segment.slot].lastSequence, lock: lock)
  }
}

extension Log {
  /// Ends the use of the active segment, which has its footer.
  mutating func sealActive() -> SealWork? {
    guard let active else { return nil }
    self.active = nil
    return seal(active)
  }

  /// Marks a segment as sealed that has its footer. A manifest that says so may be published once
  /// the returned work is done.
  mutating func seal(_ segment: ActiveSegment) -> SealWork {
    assert(segment.slot != position.slot, "the active segment is sealed while it accepts records")
    let work = sealWork(segment)
    table.infos[segment.slot].flags.insert(.sealed)
    return work
  }
}
