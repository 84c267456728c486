import MoraineFormat
import MoraineStorage
import Synchronization

/// Result of following the other processes without waiting.
enum PeerFollowing {
  case followed
  /// The whole store must be read again.
  case replaced
  /// The words of the page do not belong together, or not to the manifest: a writer is publishing,
  /// or died while it published.
  case incomplete
}

extension EngineState {
  /// Returns the state that this process publishes for other processes.
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

  /// Sequence number of the last operation in a sealed segment.
  var sealedSequence: UInt64 {
    log.manifest.segments.filter(\.isSealed).map(\.lastSequence.rawValue).max() ?? 0
  }

  /// Informs the committing thread, once, that the segments which other processes have sealed are
  /// durable.
  mutating func reportPeerSeals() {
    guard hasJoined else { return }
    hasJoined = false
    // After a suspension more may be known to be durable.
    let known = min(pipeline.durableSequence.load(ordering: .acquiring), log.lastSequence)
    pipeline.beginSegment(file: nil, sequence: max(sealedSequence, known), offset: 0)
  }

  /// Slot of the segment that is not sealed; nil when all segments are sealed.
  var openSlot: Int? {
    guard let slot = log.table.order.last, !log.table.infos[slot].flags.contains(.sealed) else {
      return nil
    }
    return slot
  }

  func hasOpenTail() -> Bool { openSlot != nil }

  func lockHandle() -> (any StorageFile)? { log.lock }

  /// Applies the writes that other processes have published.
  ///
  /// - Parameters:
  ///   - published: the publication that this process has not followed yet.
  ///   - page: the page that contains it, or a younger one by now.
  mutating func follow(
    _ published: SharedPage.Publication, in page: SharedPage
  ) throws(StoreError) -> PeerFollowing {
    assert(!isFollowedInPart, "a state that was followed in part must be read again")
    assert(!published.takesAllUnits, "only an opening takes units that were not published")
    var snapshot = published
    if snapshot.generation > log.manifest.generation {
      let (next, listing) = try manifest(of: snapshot)
      if next.generation != snapshot.generation {
        // This manifest may lack a record because of a younger one, which only a younger
        // publication contains.
        guard let later = page.snapshot(), later.nonce == snapshot.nonce,
          later.generation <= next.generation
        else { return .incomplete }
        // A process that has the store exclusively publishes nothing in the page.
        guard later.generation == next.generation || !configuration.isReadOnly else {
          return .replaced
        }
        snapshot = later
      }
      guard try apply(next, listing, snapshot) else { return .replaced }
    }
    assert(
      log.manifest.generation >= snapshot.generation, "the manifest is older than the page says")
    if let slot = openSlot, log.table.infos[slot].number.rawValue == snapshot.tailSegment {
      try widen(slot, to: max(snapshot.tailLimit, snapshot.tailEnd))
      try replayTail(slot, to: snapshot.tailEnd)
    }
    log.lastSequence = max(log.lastSequence, snapshot.lastSequence)
    recordForeignCommits()
    return .followed
  }

  /// Applies the manifest that the directory contains now.
  ///
  /// - Parameter hasBegun: set before the state changes.
  /// - Returns: false when segments that this process reads no longer exist: then the whole store
  ///   must be read again.
  mutating func followManifest(
    _ snapshot: SharedPage.Publication, _ hasBegun: inout Bool
  ) throws(StoreError) -> Bool {
    let (next, listing) = try manifest(of: snapshot)
    hasBegun = true
    return try apply(next, listing, snapshot)
  }

  /// Returns the manifest that the directory contains now, which is not older than the publication.
  private func manifest(
    of snapshot: SharedPage.Publication
  ) throws(StoreError) -> (manifest: Manifest, listing: DirectoryContents) {
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
    // A writer replaces the manifest before it publishes the new generation.
    guard next.generation >= snapshot.generation else {
      throw StoreError(
        .corrupted, "the manifest is older than the published one; restore the newer one",
        file: Manifest.fileName)
    }
    return (next, listing)
  }

  /// - Returns: the same as ``followManifest(_:_:)``.
  private mutating func apply(
    _ next: Manifest, _ listing: DirectoryContents, _ snapshot: SharedPage.Publication
  ) throws(StoreError) -> Bool {
    assert(!isFollowedInPart, "a state that was followed in part must be read again")
    let slots = Dictionary(
      log.table.order.map { (log.table.infos[$0].number, $0) },
      uniquingKeysWith: { first, _ in first })
    let kept = Set(next.segments.map(\.number))
    for (number, slot) in slots where !kept.contains(number) {
      // A process that finds the writer dead removes a segment without records.
      guard log.table[slot].recordCount == 0 else { return false }
      leave(slot)
    }
    // Keyspaces that another process has ordered: their records are in trees from now on.
    let ordered = next.ordered.filter { keyspaces.name(of: $0) != nil && !live.isOrdered($0) }
    for keyspace in next.keyspaces where keyspaces.name(of: keyspace.id) == nil {
      keyspaces.add(keyspace)
      if next.ordered.contains(keyspace.id) { live.trees.order(keyspace.id) }
    }
    let before = log.manifest
    log.adoptManifest(next)
    do throws(StoreError) {
      for entry in next.segments { try follow(entry, slots[entry.number], listing, snapshot) }
      try checkStrayKeys()
      for id in ordered { try order(id) }
    } catch {
      // The next call must find that the manifest is new.
      log.manifest = before
      throw error
    }
    log.table.arrange(by: next.segments.map(\.number))
    assert(
      log.table.order.map { log.table.infos[$0].number } == next.segments.map(\.number),
      "the table lists other segments than the manifest")
    // Another process may have used the reserve, for a compaction or on a full disk.
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
    // The segment may have been mapped before records were appended to it, and a process that found
    // its writer dead may have replaced the file by a copy.
    if known != nil { try reopenFile(slot, length: length) }
    try replayTail(slot, to: length)
    guard log.table[slot].recordCount == entry.recordCount, log.table[slot].end == length else {
      throw .corrupted(
        "the segment's records do not match its manifest entry", log.table.fileName(slot), at: 0)
    }
    log.table.infos[slot].flags = entry.flags
    if log.active?.slot == slot { log.active = nil }
  }

  /// Returns the length of a segment's file, which may have been created after the listing.
  private func lengthBytes(
    of number: SegmentNumber, _ listing: DirectoryContents
  ) throws(StoreError) -> Int {
    if let listed = listing.segments[number] { return Int(clamping: listed) }
    let name = number.fileName
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    return Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
  }

  /// Maps more bytes of a segment that has become longer.
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

  /// Replays the records of a segment that this process does not know yet, up to an offset after a
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

  /// Replays the whole units of a segment that this process does not know yet.
  ///
  /// - Parameter digestsThrough: the sequence number up to which digests are compared.
  mutating func replayOn(
    _ slot: Int, length: Int, digestsThrough: UInt64 = .max
  ) throws(StoreError) -> ReplayResult {
    let scanner = try scanner(slot, length: length)
    var replay = Replay(slot: slot, name: scanner.name, scanner: scanner)
    replay.digestsThrough = digestsThrough
    // A replay that fails has read units that it did not apply.
    isFollowedInPart = true
    let result: ReplayResult
    do throws(StoreError) { result = try replay.run(&self) } catch {
      replayFailure = error
      throw error
    }
    isFollowedInPart = false
    assert(result.validEnd >= scanner.offset, "a replay moved the end of a segment back")
    log.table[slot].end = result.validEnd
    return result
  }

  /// Returns a scanner of a segment's records.
  ///
  /// - Parameter start: the offset at which to begin; nil for the end of the known records.
  func scanner(
    _ slot: Int, from start: Int? = nil, length: Int
  ) throws(StoreError) -> SegmentScanner {
    let name = log.table.fileName(slot)
    let mapping = log.table.infos[slot].mapping
    // A file that is opened here stays open, and no bytes are read from it beside a mapping.
    let file: (any StorageFile)? =
      if mapping == nil { try log.table.files.file(for: slot, named: name) } else { nil }
    let source = ByteSource(file: file, name: name, length: length, mapping: mapping)
    return SegmentScanner(
      source: source, name: name, seed: log.table[slot].seed, offset: start ?? log.table[slot].end)
  }
}

/// Functions of the process that holds the writer's lock, for the segment that other processes have
/// appended to.
extension EngineState {
  /// Makes the published tail the active segment. No segment is active when the tail accepts no
  /// more records.
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
    // A process that writes without a mapping allocates nothing ahead. Bytes that are written to a
    // mapping after the end of the file are lost, and the footer needs the reserved bytes.
    let hasRoom = length >= log.table[slot].end + ActiveSegment.reservedBytes
    let tail = ActiveSegment(
      slot: slot, file: file, mapping: mapping, allocated: mapping != nil && hasRoom ? length : nil,
      limit: snapshot.tailLimit, step: ActiveSegment.smallestAllocation, softEnd: .max)
    log.adopt(tail: tail, markedOffset: marked)
    pipeline.follow(
      file: file, sequence: log.lastSequence, offset: UInt64(log.table[slot].end),
      durable: sealedSequence, marked: UInt64(marked))
  }

  /// Replays the records that a dead writer has appended after the published end of the log. Whole
  /// units are kept: the dead writer may have acknowledged them (P2).
  ///
  /// - Returns: the segment, which must become durable before a manifest lists it as sealed; nil
  ///   when no segment is open.
  mutating func recoverTail() throws(StoreError) -> OpenSegment? {
    log.active = nil
    guard let slot = openSlot else { return nil }
    let name = log.table.fileName(slot)
    let length = try storing { () throws(StorageError) in
      Int(clamping: try directory.openFile(name, .read)?.lengthBytes() ?? 0)
    }
    let published = log.table[slot].end
    // Another program may have cut or removed the file. A scan must not begin after its end.
    guard length >= published else {
      throw .corrupted(
        "the file has \(length) bytes, but another process has published \(published)", name,
        at: length)
    }
    if log.table.infos[slot].mapping != nil { try widen(slot, to: length) }
    var result = try replayOn(slot, length: length)
    result.validEnd = max(published, result.validEnd)
    let watermark = log.manifest.watermark(of: log.table.infos[slot].number)
    let end = try TailVerdict(
      result, scanner(slot, length: length), name: name, watermark: watermark
    ).end
    precondition(end >= published, "a recovered segment ends before published records")
    log.table[slot].end = end
    // The footer may have been published without a manifest that lists the segment as sealed, for
    // example on a full disk.
    let hasFooter = try scanner(slot, length: end).hasFooter(before: end)
    // The bytes after this offset may be durable too; copying them again costs little.
    let durable = min(max(Int(clamping: watermark), log.table[slot].firstOffset), end)
    assert(durable >= log.table[slot].firstOffset, "only a segment's header is durable")
    return OpenSegment(
      slot: slot, name: name, seed: log.table[slot].seed, start: log.table[slot].firstOffset,
      end: end,
      knownDurableEnd: durable, hasFooter: hasFooter, isEmpty: log.table[slot].recordCount == 0)
  }

  /// Marks the segment of ``recoverTail()`` as sealed, or removes it when it has no record.
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
