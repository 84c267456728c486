import MoraineFormat
import MoraineStorage
import SystemPackage

/// Reads the undamaged parts of a damaged store. Changes nothing in its directory.
///
/// The calls block. The caller makes them from a thread of their own, one at a time.
struct SalvageWork: Sendable {
  /// A segment of the store, and the facts that are known of it before it is read.
  struct Plan: Sendable {
    let number: SegmentNumber
    /// The number in the name of the file that holds the segment; nil when no file does.
    let file: SegmentNumber?
    let entry: Manifest.Segment?
    /// Offset up to which the segment was durable, as the manifest states it.
    var promise = 0
    /// Length of the segment, as the header of the next segment states it.
    var knownLength: Int?
    /// The lowest and the highest sequence number that the segment's operations can have.
    var sequences: (lowest: UInt64, highest: UInt64) = (0, .max)

    var name: String { (file ?? number).fileName }
    var isSealed: Bool { entry?.isSealed ?? false }
    /// Offset at which the records end; nil where only the file can show it.
    var limit: Int? {
      if let entry, entry.isSealed { return Int(clamping: entry.lengthBytes) }
      return knownLength
    }
  }

  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// The manifest, which contains the names of the keyspaces; nil when it is damaged or belongs to
  /// another store.
  let manifest: Manifest?
  /// The names of the manifest's keyspaces, by their numbers.
  private let names: [UInt16: String]
  /// The numbers of the ordered keyspaces in the manifest.
  private let ordered: Set<UInt16>
  let listing: DirectoryContents
  let files: SalvageFiles
  /// Groups of segments that are read together, in the order of the groups. The sequence numbers in
  /// a group overlap, or are not known.
  private(set) var groups: [[Plan]] = []
  private(set) var report = SalvageReport()

  /// - Parameter use: `.readingAlone` to keep other programs out until ``free()``. A compaction of
  ///   one that shares the store would remove segments before they are read.
  /// - Throws: `.notAStore`, `.locked`, `.newerFormat`, `.io`.
  init(
    _ storage: any Storage, _ path: FilePath, for use: RestoreWork.SourceUse
  ) throws(StoreError) {
    (directory, lock) = try RestoreWork.openSource(
      path, of: storage, "there is no store at this path", for: use)
    listing = try DirectoryContents(directory)
    var problem: String?
    var manifest: Manifest?
    do throws(StoreError) {
      manifest = try ManifestFile.read(directory, listing)
      guard manifest != nil else {
        throw StoreError(.notAStore, "there is no store at this path", file: path.string)
      }
    } catch {
      guard error.code != .newerFormat, error.code != .notAStore, !listing.segments.isEmpty else {
        throw error
      }
      problem = error.message
    }
    files = try SalvageFiles(directory, listing, manifest)
    if files.manifestIsForeign {
      problem = "it belongs to another store than the segments, and was ignored"
      manifest = nil
    } else if let manifest,
      let younger = try files.youngerSegment(than: manifest, in: directory)
    {
      problem = "it is older than segment \(younger); the segments were read without it"
    }
    self.manifest = manifest
    let keyspaces = manifest?.keyspaces ?? []
    names = Dictionary(uniqueKeysWithValues: keyspaces.map { ($0.id, $0.name) })
    ordered = Set(manifest?.ordered ?? [])
    if let problem {
      report.losses.append(
        SalvageLoss(
          kind: .manifest, file: Manifest.fileName, offset: 0, lengthBytes: 0, reason: problem))
    }
    if let manifest, problem == nil { plan(manifest) } else { try planWithoutManifest() }
    let used = Set(groups.joined().compactMap(\.file))
    let ignored = Set(listing.segments.keys.filter { !used.contains($0) })
    report.unlistedSegments = try unlistedSegments(ignored)
    report.ignoredFiles = ignored.sorted().map(\.fileName)
  }

  func free() {
    lock?.unlock()
    // Without `LOCK` the directory alone is locked.
    directory.unlock()
  }

  /// Returns the name of a keyspace, or a name made from its number when no manifest has one.
  func name(ofKeyspace id: UInt16) -> String {
    if id == 0 { return "" }
    return names[id] ?? "keyspace-\(id)"
  }

  /// Returns whether the manifest has a keyspace as an ordered one; false without a manifest.
  func isOrdered(keyspace id: UInt16) -> Bool { ordered.contains(id) }

  /// Plans the segments that the manifest lists. Each is as long as the manifest says. The order is
  /// that of the sequence numbers, whatever the order of the list is.
  private mutating func plan(_ manifest: Manifest) {
    let (holders, lengths) = (files.holders, files.lengths)
    var sealed: [(plan: Plan, first: UInt64, last: UInt64)] = []
    var open: [Plan] = []
    var last: UInt64 = 0
    for entry in manifest.segments {
      var plan = Plan(
        number: entry.number, file: holders[entry.number], entry: entry,
        knownLength: lengths[entry.number])
      if manifest.watermarkSegment == entry.number.rawValue {
        plan.promise = Int(clamping: manifest.watermarkOffset)
      }
      if entry.isSealed {
        // A segment without operations has an empty range of sequence numbers.
        let isEmpty = entry.recordCount == 0
        plan.sequences =
          isEmpty ? (1, 0) : (entry.firstSequence.rawValue, entry.lastSequence.rawValue)
        last = max(last, entry.lastSequence.rawValue)
        sealed.append((plan, entry.firstSequence.rawValue, entry.lastSequence.rawValue))
      } else {
        open.append(plan)
      }
    }
    group(sealed)
    // All operations of the open segments come after those of the sealed ones.
    for index in open.indices { open[index].sequences.lowest = last &+ 1 }
    if !open.isEmpty { groups.append(open) }
  }

  /// Plans the segments in the order of their first sequence numbers. Segments that overlap form
  /// one group: compaction may have been running, and its output then contains some of the records
  /// of its inputs.
  private mutating func planWithoutManifest() throws(StoreError) {
    let lengths = files.lengths
    var ranges: [(plan: Plan, first: UInt64, last: UInt64)] = []
    for (number, file) in files.holders.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let plan = Plan(number: number, file: file, entry: nil, knownLength: lengths[number])
      guard let segment = try load(plan) else { continue }
      let range = segment.sequences ?? 0...0
      ranges.append((plan, range.lowerBound, range.upperBound))
    }
    group(ranges)
  }

  /// Puts segments that overlap into one group, and orders the groups by their sequence numbers.
  private mutating func group(_ ranges: [(plan: Plan, first: UInt64, last: UInt64)]) {
    assert(groups.isEmpty, "the segments are grouped twice")
    var end: UInt64 = 0
    for range in ranges.sorted(by: { $0.first < $1.first }) {
      if groups.isEmpty || range.first > end { groups.append([]) }
      groups[groups.count - 1].append(range.plan)
      end = max(end, range.last)
    }
  }

  /// Returns intact segments of this store that the manifest does not list. Their records are not
  /// copied: the manifest may rightly leave them out, and later operations may have overwritten or
  /// deleted the records.
  private func unlistedSegments(_ names: Set<SegmentNumber>) throws(StoreError) -> [UnlistedSegment]
  {
    var result: [UnlistedSegment] = []
    for name in names.sorted() {
      guard let header = files.headers[name], files.isOurs(header),
        let segment = try load(Plan(number: header.number, file: name, entry: nil)),
        let range = segment.sequences
      else { continue }
      result.append(
        UnlistedSegment(
          file: name.fileName, recordCount: UInt64(segment.survivors.count),
          firstSequence: SequenceNumber(rawValue: range.lowerBound),
          lastSequence: SequenceNumber(rawValue: range.upperBound)))
    }
    return result
  }
}

extension SalvageWork {
  /// A segment, and the records that were found in it.
  struct Segment: Sendable {
    let plan: Plan
    let bytes: SalvageBytes
    /// Nil when none of the segment's records can be read.
    let head: SalvagedHeader?
    var survivors: [SegmentSalvage.Survivor] = []
    var losses: [SalvageLoss] = []
    /// The hole at the segment's end. It is a loss when later records of the log count.
    var tail: SalvageLoss?
    /// Index of the survivor with which an unfinished batch begins.
    var unfinished: Int?
    /// Whether a sync mark or the manifest states that everything before some offset of the segment
    /// was durable.
    var hasDurableBytes = false

    /// The lowest and the highest sequence number of the survivors; nil without survivors.
    var sequences: ClosedRange<UInt64>? {
      guard let first = survivors.first?.sequence else { return nil }
      return survivors.reduce(first...first) { range, survivor in
        min(range.lowerBound, survivor.sequence)...max(range.upperBound, survivor.sequence)
      }
    }
  }

  /// The operations of a group that can be recovered, in ascending order of sequence numbers.
  struct Group: Sendable {
    var segments: [Segment] = []
    var losses: [SalvageLoss] = []
    var torn: [SalvageLoss] = []
    /// The places of the operations: the index of the segment, and the offset in it.
    var order: [(segment: Int, offset: Int, sequence: UInt64)] = []
  }

  /// - Parameter isLast: whether no group follows.
  func load(_ plans: [Plan], isLast: Bool) throws(StoreError) -> Group {
    assert(!plans.isEmpty, "a group has no segments")
    var group = Group()
    for plan in plans {
      if let segment = try load(plan) {
        group.segments.append(segment)
      } else {
        group.losses.append(missing(plan))
      }
    }
    // Only the ends of the last segment with contents and of those after it may have been torn.
    let last = group.segments.lastIndex { !$0.survivors.isEmpty || $0.hasDurableBytes } ?? -1
    for index in group.segments.indices {
      classifyEnd(of: &group.segments[index], isLast: isLast && index >= last, &group.torn)
    }
    for (index, segment) in group.segments.enumerated() {
      group.order += segment.survivors.map { (index, $0.offset, $0.sequence) }
    }
    group.order.sort { ($0.sequence, $0.segment) < ($1.sequence, $1.segment) }
    return group
  }

  /// Decides whether the end of a segment is lost or was torn. An end that later records follow was
  /// not torn: it is lost, and a batch without its end was committed. At the end of the log, a
  /// batch without its end was not committed.
  private func classifyEnd(
    of segment: inout Segment, isLast: Bool, _ torn: inout [SalvageLoss]
  ) {
    guard isLast, !segment.plan.isSealed, !segment.losses.contains(where: { $0.before == nil })
    else {
      if var tail = segment.tail {
        tail.breaksBatch = segment.unfinished != nil
        segment.losses.append(tail)
      }
      return
    }
    guard let unfinished = segment.unfinished,
      segment.survivors[unfinished].offset >= segment.plan.promise
    else {
      if let tail = segment.tail { torn.append(tail) }
      return
    }
    let begin = segment.survivors[unfinished].offset
    let end = segment.tail.map { Int($0.offset + $0.lengthBytes) } ?? begin
    let hole = SegmentSalvage.Hole(
      range: begin..<max(begin, end), reason: "incomplete batch: its last record is missing",
      after: unfinished == 0 ? 0 : segment.survivors[unfinished - 1].sequence,
      damaged: segment.survivors[unfinished...].map(\.offset))
    torn.append(loss(hole, segment.plan, segment.bytes))
    segment.survivors.removeSubrange(unfinished...)
  }

  /// Returns nil when no file holds the segment.
  func load(_ plan: Plan) throws(StoreError) -> Segment? {
    guard plan.file != nil else { return nil }
    let file = try storing { () throws(StorageError) in
      try directory.openFile(plan.name, .read)
    }
    guard let file else { return nil }
    // A segment that was not sealed may be longer than the other files say.
    let source = try SalvageBytes(file, limit: plan.isSealed ? plan.limit : nil)
    let head = try SalvagedHeader(source, plan, dictionaries: files.dictionaries)
    if let problem = identityProblem(head?.header, plan) {
      return Segment(
        plan: plan, bytes: source, head: nil, losses: [whole(plan, source, problem)])
    }
    guard let head else {
      let isEmpty = source.bytes.allSatisfy { $0 == 0 }
      let reason =
        isEmpty
        ? "all bytes of the file are zero"
        : "its header is damaged, and no consecutive records confirm its fields"
      return Segment(plan: plan, bytes: source, head: nil, losses: [whole(plan, source, reason)])
    }
    var salvage = SegmentSalvage(source, head, plan)
    try salvage.run(from: head.firstOffset)
    var segment = Segment(plan: plan, bytes: source, head: head, survivors: salvage.survivors)
    // The dictionary lies between a damaged header and the first record.
    let holes = salvage.holes.drop { hole in
      head.header == nil && hole.range.lowerBound == head.firstOffset
        && hole.range.upperBound == head.claimedOffset
    }
    segment.losses = holes.map { loss($0, plan, source) }
    segment.tail = salvage.tail.map { loss($0, plan, source) }
    segment.unfinished = salvage.unfinished
    segment.hasDurableBytes = salvage.promise > 0
    count(&segment)
    return segment
  }

  /// Returns why a file is not the segment that it should be; nil when it is.
  private func identityProblem(_ header: SegmentHeader?, _ plan: Plan) -> String? {
    guard let header else { return nil }
    if !files.isOurs(header) { return "it belongs to another store" }
    if let entry = plan.entry, header.epoch != entry.epoch {
      return "it belongs to another epoch of the store"
    }
    return nil
  }

  /// Sets the number of lost records, where the manifest states how many records there were.
  private func count(_ segment: inout Segment) {
    guard let entry = segment.plan.entry, entry.isSealed else { return }
    let missing = Int(clamping: entry.recordCount) - segment.survivors.count
    if missing > 0, segment.losses.isEmpty {
      let hole = SegmentSalvage.Hole(
        range: segment.bytes.bytes.count..<segment.bytes.bytes.count,
        reason: "the manifest lists \(entry.recordCount) records, but the segment has "
          + "\(segment.survivors.count)", after: segment.sequences?.upperBound ?? 0)
      segment.losses.append(loss(hole, segment.plan, segment.bytes))
    }
    guard missing == 0 || segment.losses.count == 1 else { return }
    for index in segment.losses.indices {
      segment.losses[index].recordCount = UInt64(max(0, missing))
    }
  }
}

extension SalvageReport {
  /// Adds the findings in a group of segments.
  mutating func add(_ group: SalvageWork.Group) {
    losses += group.losses
    torn += group.torn
    for segment in group.segments {
      segmentCount += 1
      readBytes += UInt64(segment.bytes.bytes.count)
      losses += segment.losses
      if segment.head?.isComplete == false { segmentsWithoutHeader.append(segment.plan.name) }
    }
  }
}

extension SalvageWork {
  func missing(_ plan: Plan) -> SalvageLoss { whole(plan, nil, "the file is missing") }

  /// Returns the loss of a whole segment.
  func whole(_ plan: Plan, _ source: SalvageBytes?, _ reason: String) -> SalvageLoss {
    let problem = source.flatMap { $0.problem(in: 0..<$0.bytes.count)?.message }
    let length = UInt64(max(plan.limit ?? 0, source?.bytes.count ?? 0))
    var loss = SalvageLoss(
      kind: .segment, file: plan.name, offset: 0, lengthBytes: length, reason: problem ?? reason)
    if plan.sequences.lowest > 0 {
      loss.after = SequenceNumber(rawValue: plan.sequences.lowest - 1)
    }
    guard let entry = plan.entry, entry.isSealed else { return loss }
    loss.recordCount = entry.recordCount
    loss.before = SequenceNumber(rawValue: entry.lastSequence.rawValue + 1)
    return loss
  }

  /// Returns the loss of a part of a segment.
  func loss(
    _ hole: SegmentSalvage.Hole, _ plan: Plan, _ source: SalvageBytes
  ) -> SalvageLoss {
    var loss = SalvageLoss(
      kind: .records, file: plan.name, offset: UInt64(hole.range.lowerBound),
      lengthBytes: UInt64(hole.range.count), reason: hole.reason)
    loss.after = SequenceNumber(rawValue: hole.after)
    // The next segment follows a hole at the end of a sealed segment.
    let end = plan.isSealed ? plan.entry.map { $0.lastSequence.rawValue + 1 } : nil
    loss.before = (hole.before ?? end).map { SequenceNumber(rawValue: $0) }
    loss.breaksBatch = hole.breaksBatch
    loss.keys = hole.damaged.map { offset in
      let header = source.header(at: offset)
      let start = offset + header.keyOffset
      return SalvagedKey(
        keyspace: name(ofKeyspace: header.keyspace),
        key: Key(Array(source.bytes[start..<(start + header.keyLength)])),
        sequence: SequenceNumber(rawValue: header.sequence), isVerified: false)
    }
    return loss
  }
}
