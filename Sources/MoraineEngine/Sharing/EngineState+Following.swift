import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// What others may read of what this process knows.
  func sharedSnapshot() -> SharedPage.Publication {
    var result = SharedPage.Publication()
    result.generation = log.manifest.generation
    result.lastSequence = log.lastSequence
    guard let slot = log.table.order.last else { return result }
    result.tailSegment = log.table.infos[slot].number.rawValue
    result.tailEnd = log.table[slot].end
    if let active = log.active, active.slot == slot, !active.hasFooter {
      result.tailLimit = active.limit
    }
    return result
  }

  /// The last operation of a sealed segment.
  var sealedSequence: UInt64 {
    log.manifest.segments.filter(\.isSealed).map(\.lastSequence.rawValue).max() ?? 0
  }

  /// Tells the committing thread, once, that what others have sealed is durable; of the rest they
  /// know.
  mutating func tellOfOthers() {
    guard hasJoined else { return }
    hasJoined = false
    // After a suspension it may know more.
    let known = min(pipeline.durableSequence.load(ordering: .acquiring), log.lastSequence)
    pipeline.begin(file: nil, sequence: max(sealedSequence, known), offset: 0)
  }

  /// The segment that nobody has sealed, if there is one.
  var openSlot: Int? {
    guard let slot = log.table.order.last, !log.table.infos[slot].flags.contains(.sealed) else {
      return nil
    }
    return slot
  }

  func hasOpenTail() -> Bool { openSlot != nil }

  func lockHandle() -> (any StorageFile)? { log.lock }

  /// Takes in what other processes have published.
  ///
  /// - Returns: false when segments that this process reads are gone: then all is to be read anew.
  mutating func follow(_ snapshot: SharedPage.Publication) throws(StoreError) -> Bool {
    assert(!isFollowedInPart, "a state that was followed in part must be read again")
    assert(!snapshot.takesAllUnits, "only an opening takes units that were not published")
    if snapshot.generation > log.manifest.generation {
      guard try followManifest(snapshot) else { return false }
    }
    assert(
      log.manifest.generation >= snapshot.generation, "the manifest is older than the page says")
    if let slot = openSlot, log.table.infos[slot].number.rawValue == snapshot.tailSegment {
      try widen(slot, to: max(snapshot.tailLimit, snapshot.tailEnd))
      try replayTail(slot, to: snapshot.tailEnd)
    }
    log.lastSequence = max(log.lastSequence, snapshot.lastSequence)
    keyspaces.recordCommitToAll()
    return true
  }

  /// Takes in the manifest as it lies there.
  ///
  /// - Returns: as ``follow(_:)``.
  mutating func followManifest(_ snapshot: SharedPage.Publication) throws(StoreError) -> Bool {
    assert(!isFollowedInPart, "a state that was followed in part must be read again")
    let listing = try DirectoryContents(directory)
    guard let next = try ManifestFile.read(directory, listing) else {
      throw StoreError(
        .corrupted, "the manifest was removed while the store was open; restore it",
        file: Manifest.fileName)
    }
    guard next.storeID == log.manifest.storeID, next.generation >= log.manifest.generation else {
      throw StoreError(
        .corrupted, "another store has replaced this one; open the path again",
        file: Manifest.fileName)
    }
    // It is put in place before anybody is told of it.
    guard next.generation >= snapshot.generation else {
      throw StoreError(
        .corrupted, "the manifest is older than the published one; restore the newer one",
        file: Manifest.fileName)
    }
    let slots = Dictionary(
      log.table.order.map { (log.table.infos[$0].number, $0) },
      uniquingKeysWith: { first, _ in first })
    let kept = Set(next.segments.map(\.number))
    for (number, slot) in slots where !kept.contains(number) {
      // What was never written to is given up by whoever finds its writer dead.
      guard log.table[slot].recordCount == 0 else { return false }
      leave(slot)
    }
    for keyspace in next.keyspaces where keyspaces.name(of: keyspace.id) == nil {
      keyspaces.add(keyspace)
    }
    let before = log.manifest
    log.adoptManifest(next)
    do throws(StoreError) {
      for entry in next.segments { try follow(entry, slots[entry.number], listing, snapshot) }
    } catch {
      // The next look is to see that something is new.
      log.manifest = before
      throw error
    }
    log.table.arrange(by: next.segments.map(\.number))
    assert(
      log.table.order.map { log.table.infos[$0].number } == next.segments.map(\.number),
      "the table lists other segments than the manifest")
    // Whoever compacted or filled the disk may have used it.
    log.reserve = Reserve(directory: directory, found: listing.reserveBytes)
    return true
  }

  private mutating func leave(_ slot: Int) {
    precondition(log.table[slot].recordCount == 0, "a segment with records is left out of the log")
    if log.active?.slot == slot { log.active = nil }
    log.table.drop(slot)
  }

  private mutating func follow(
    _ entry: Manifest.Segment, _ known: Int?, _ listing: DirectoryContents,
    _ snapshot: SharedPage.Publication
  ) throws(StoreError) {
    if let known, log.table.infos[known].flags.contains(.sealed) { return }
    let length =
      entry.isSealed
      ? Int(clamping: entry.lengthBytes) : try lengthBytes(of: entry.number, listing)
    let isTail = snapshot.tailSegment == entry.number.rawValue
    let growth = entry.isSealed ? nil : isTail ? max(snapshot.tailLimit, snapshot.tailEnd) : 0
    let slot =
      if let known { known } else {
        try SegmentOpening.add(entry, &self, length: length, growingTo: growth).slot
      }
    guard entry.isSealed else { return }
    // It may have been mapped before it was appended to. And the process that found
    // its writer dead has put a copy in its place.
    if known != nil { try reopenFile(slot, length: length) }
    try replayTail(slot, to: length)
    guard log.table[slot].recordCount == entry.recordCount, log.table[slot].end == length else {
      throw .corrupted(
        "the segment's records do not match its manifest entry", log.table.fileName(slot), at: 0)
    }
    log.table.infos[slot].flags = entry.flags
    if log.active?.slot == slot { log.active = nil }
  }

  /// How long a segment's file is, which may have been born after the listing.
  private func lengthBytes(
    of number: SegmentNumber, _ listing: DirectoryContents
  ) throws(StoreError) -> Int {
    if let listed = listing.segments[number] { return Int(clamping: listed) }
    let name = number.fileName
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    return Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
  }

  /// Maps more of a segment that was mapped when it was shorter.
  mutating func widen(_ slot: Int, to length: Int) throws(StoreError) {
    let wanted = FileBlock.covering(length)
    guard let mapping = log.table.infos[slot].mapping, mapping.lengthBytes < wanted else { return }
    let access: FileAccess = configuration.isReadOnly ? .read : .readWrite
    let name = log.table.fileName(slot)
    let file = try storing { () throws(StorageError) in try directory.openFile(name, access) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let wider = try SegmentFile.map(file, wanted, access)
    if wider == nil { log.table.cache(file, for: slot) }
    log.table[slot].base = wider?.base
    log.table.infos[slot].mapping = wider
    if log.active?.slot == slot { log.active = nil }
  }

  /// Reads a sealed segment from the file that its name leads to now: recovery puts a copy in the
  /// place of one that was not sealed.
  mutating func reopenFile(_ slot: Int, length: Int) throws(StoreError) {
    if log.active?.slot == slot { log.active = nil }
    log.table.files.forget(slot)
    guard log.table.infos[slot].mapping != nil else { return }
    let name = log.table.fileName(slot)
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let mapping = try SegmentFile.map(file, length)
    if mapping == nil { log.table.cache(file, for: slot) }
    log.table[slot].base = mapping?.base
    log.table.infos[slot].mapping = mapping
  }

  /// Takes in the records of a segment from where it is known up to a place, which lies behind a
  /// whole unit.
  mutating func replayTail(_ slot: Int, to end: Int) throws(StoreError) {
    guard end > log.table[slot].end else { return }
    let result = try replayOn(slot, length: end)
    guard result.validEnd == end else {
      let stop = result.stop ?? (result.validEnd, "incomplete batch: its last record is missing")
      throw .corrupted(
        "\(stop.reason), but another process has published these bytes", log.table.fileName(slot),
        at: stop.offset)
    }
  }

  /// Takes in the whole units of a segment's bytes from where it is known.
  ///
  /// - Parameter digestsThrough: up to which sequence number digests are compared.
  mutating func replayOn(
    _ slot: Int, length: Int, digestsThrough: UInt64 = .max
  ) throws(StoreError) -> ReplayResult {
    let scanner = try scanner(slot, length: length)
    var replay = Replay(slot: slot, name: scanner.name, scanner: scanner)
    replay.digestsThrough = digestsThrough
    // A replay that fails leaves out what it had read and not taken in yet.
    isFollowedInPart = true
    let result = try replay.run(&self)
    isFollowedInPart = false
    assert(result.validEnd >= scanner.offset, "a replay moved the end of a segment back")
    log.table[slot].end = result.validEnd
    return result
  }

  /// Goes through a segment's records from a place on; from where it is known, unless told.
  func scanner(
    _ slot: Int, from start: Int? = nil, length: Int
  ) throws(StoreError) -> SegmentScanner {
    let name = log.table.fileName(slot)
    let source = ByteSource(
      file: try log.table.files.file(for: slot, named: name), name: name, length: length,
      mapping: log.table.infos[slot].mapping)
    return SegmentScanner(
      source: source, name: name, seed: log.table[slot].seed, offset: start ?? log.table[slot].end)
  }
}

/// What the holder of the writer's lock does with the segment that others have appended to.
extension EngineState {
  /// Makes the shared tail the segment to append to; none when it takes no more.
  mutating func adoptTail(_ snapshot: SharedPage.Publication) throws(StoreError) {
    guard let slot = openSlot, snapshot.tailLimit > 0,
      log.table.infos[slot].number.rawValue == snapshot.tailSegment
    else {
      log.active = nil
      return
    }
    let name = log.table.fileName(slot)
    let isKnown = log.active?.slot == slot
    let (file, length) = try storing { () throws(StorageError) in
      let file =
        if isKnown { log.active?.file } else { try directory.openFile(name, .readWrite) }
      return (file, Int(clamping: try file?.lengthBytes() ?? 0))
    }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let mapping = log.table.infos[slot].mapping
    if mapping == nil { log.table.cache(file, for: slot) }
    let marked = isKnown ? log.position.markedOffset : log.table[slot].firstOffset
    // A process that writes without a mapping allocates nothing ahead. What a mapping writes behind
    // the file's end is lost, and the footer asks for no more room than is kept for it.
    let hasRoom = length >= log.table[slot].end + ActiveSegment.reservedBytes
    let tail = ActiveSegment(
      slot: slot, file: file, mapping: mapping, allocated: mapping != nil && hasRoom ? length : nil,
      limit: snapshot.tailLimit, step: ActiveSegment.smallestAllocation, softEnd: .max)
    log.adopt(tail: tail, markedOffset: marked)
    pipeline.follow(
      file: file, sequence: log.lastSequence, offset: UInt64(log.table[slot].end),
      durable: sealedSequence, marked: UInt64(marked))
  }

  /// Takes in what a writer that died has left behind the published end of the log: whole units
  /// count, for it may be that they do (P7).
  ///
  /// - Returns: what is to be made durable before the segment is listed as sealed; nil when there
  ///   is no open segment.
  mutating func recoverTail() throws(StoreError) -> OpenSegment? {
    log.active = nil
    guard let slot = openSlot else { return nil }
    let name = log.table.fileName(slot)
    let length = try storing { () throws(StorageError) in
      Int(clamping: try directory.openFile(name, .read)?.lengthBytes() ?? 0)
    }
    if log.table.infos[slot].mapping != nil { try widen(slot, to: length) }
    let published = log.table[slot].end
    var result = try replayOn(slot, length: length)
    result.validEnd = max(published, result.validEnd)
    let watermark = log.manifest.watermark(of: log.table.infos[slot].number)
    let end = try TailVerdict(
      result, scanner(slot, length: length), name: name, watermark: watermark
    ).end
    precondition(end >= published, "a recovered segment ends before published records")
    log.table[slot].end = end
    // It may have been published without a manifest that says so: on a full disk perhaps.
    let hasFooter = try scanner(slot, length: end).hasFooter(before: end)
    // The rest may be proven; to copy it costs little.
    let proven = min(max(Int(clamping: watermark), log.table[slot].firstOffset), end)
    assert(proven >= log.table[slot].firstOffset, "a segment is proven only inside its header")
    return OpenSegment(
      slot: slot, name: name, seed: log.table[slot].seed, start: log.table[slot].firstOffset,
      end: end,
      provenEnd: proven, hasFooter: hasFooter, isEmpty: log.table[slot].recordCount == 0)
  }

  /// Lists as sealed what ``recoverTail()`` has found.
  mutating func sealRecoveredTail(_ segment: OpenSegment) {
    assert(openSlot == segment.slot, "the recovered segment is not the open one")
    assert(log.active == nil, "a segment that is recovered accepts records")
    assert(
      segment.isEmpty == (log.table[segment.slot].recordCount == 0),
      "a recovered segment has got records, or lost them")
    if segment.isEmpty {
      log.table.drop(segment.slot)
    } else {
      log.table.infos[segment.slot].flags.insert(.sealed)
      if !segment.hasFooter { log.table.infos[segment.slot].flags.insert(.cut) }
    }
  }
}
