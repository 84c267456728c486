import MoraineFormat
import MoraineStorage

extension SalvageWork {
  /// A segment as far as it was found.
  struct Segment: Sendable {
    let plan: Plan
    let bytes: SalvageBytes
    /// Nil when no record was found in it.
    let head: SalvagedHeader?
    var survivors: [SegmentSalvage.Survivor] = []
    var losses: [SalvageLoss] = []
    /// What is missing at its end, unless something counts that comes behind it.
    var tail: SalvageLoss?
    /// Where a batch begins that has no end, among the survivors.
    var unfinished: Int?
    /// Whether it says that all before it was durable.
    var vouches = false
  }

  /// What can be taken over of a group, by rising sequence numbers.
  struct Group: Sendable {
    var segments: [Segment] = []
    var losses: [SalvageLoss] = []
    var torn: [SalvageLoss] = []
    /// The places of the operations: which segment, and where in it.
    var order: [(segment: Int, offset: Int, sequence: UInt64)] = []
  }

  /// - Parameter isLast: whether nothing comes behind it.
  func load(_ plans: [Plan], isLast: Bool) throws(StoreError) -> Group {
    var group = Group()
    for plan in plans {
      if let segment = try load(plan) {
        group.segments.append(segment)
      } else {
        group.losses.append(missing(plan))
      }
    }
    // Behind the last one that has anything lies what may have been torn.
    let last = group.segments.lastIndex { !$0.survivors.isEmpty || $0.vouches } ?? -1
    for index in group.segments.indices {
      judgeEnd(of: &group.segments[index], isLast: isLast && index >= last, &group.torn)
    }
    for (index, segment) in group.segments.enumerated() {
      group.order += segment.survivors.map { (index, $0.offset, $0.sequence) }
    }
    group.order.sort { ($0.sequence, $0.segment) < ($1.sequence, $1.segment) }
    return group
  }

  /// What others count behind was not torn: it is missing; and a batch that lost its end there
  /// happened. At the end of the log, it did not.
  private func judgeEnd(
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
      range: begin..<max(begin, end), reason: "a batch without its end",
      after: unfinished == 0 ? 0 : segment.survivors[unfinished - 1].sequence,
      damaged: segment.survivors[unfinished...].map(\.offset))
    torn.append(loss(hole, segment.plan, segment.bytes))
    segment.survivors.removeSubrange(unfinished...)
  }

  /// Nil when no file holds it.
  func load(_ plan: Plan) throws(StoreError) -> Segment? {
    guard plan.file != nil else { return nil }
    let file = try storing { () throws(StorageError) in
      try directory.openFile(plan.name, .read)
    }
    guard let file else { return nil }
    // One that was not sealed may be longer than others know.
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
        ? "nothing is written in it"
        : "its header is damaged, and no records in a row prove what it said"
      return Segment(plan: plan, bytes: source, head: nil, losses: [whole(plan, source, reason)])
    }
    var salvage = SegmentSalvage(source, seed: head.seed, plan)
    try salvage.run(from: head.firstOffset)
    var segment = Segment(plan: plan, bytes: source, head: head, survivors: salvage.survivors)
    // Between a header that is damaged and the first record lies the dictionary.
    let holes = salvage.holes.drop { hole in
      head.header == nil && hole.range.lowerBound == head.firstOffset
        && hole.range.upperBound == head.claimedOffset
    }
    segment.losses = holes.map { loss($0, plan, source) }
    segment.tail = salvage.tail.map { loss($0, plan, source) }
    segment.unfinished = salvage.unfinished
    segment.vouches = salvage.promise > 0
    count(&segment)
    return segment
  }

  /// Why a file is not the segment that it should be.
  private func identityProblem(_ header: SegmentHeader?, _ plan: Plan) -> String? {
    guard let header else { return nil }
    if !files.isOurs(header) { return "it belongs to another store" }
    if let entry = plan.entry, header.epoch != entry.epoch {
      return "it belongs to another life of the store"
    }
    return nil
  }

  /// How many records are lost is known where the manifest has counted them.
  private func count(_ segment: inout Segment) {
    guard let entry = segment.plan.entry, entry.isSealed else { return }
    let missing = Int(clamping: entry.recordCount) - segment.survivors.count
    if missing > 0, segment.losses.isEmpty {
      let hole = SegmentSalvage.Hole(
        range: segment.bytes.bytes.count..<segment.bytes.bytes.count,
        reason: "the manifest counts \(entry.recordCount) records, and there are "
          + "\(segment.survivors.count)", after: segment.survivors.last?.sequence ?? 0)
      segment.losses.append(loss(hole, segment.plan, segment.bytes))
    }
    guard missing == 0 || segment.losses.count == 1 else { return }
    for index in segment.losses.indices {
      segment.losses[index].recordCount = UInt64(max(0, missing))
    }
  }
}

extension SalvageReport {
  /// What was found of a group of segments.
  mutating func add(_ group: SalvageWork.Group) {
    losses += group.losses
    torn += group.torn
    for segment in group.segments {
      segmentCount += 1
      readBytes += UInt64(segment.bytes.bytes.count)
      losses += segment.losses
      if segment.head?.isWhole == false { segmentsWithoutHeader.append(segment.plan.name) }
    }
  }
}
