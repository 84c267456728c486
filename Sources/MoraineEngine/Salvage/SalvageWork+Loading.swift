import MoraineFormat

extension SalvageWork {
  /// A segment as far as it was found.
  struct Segment: Sendable {
    let plan: Plan
    let bytes: SalvageBytes
    /// Nil when no record was found in it.
    let head: SegmentHead?
    var survivors: [SegmentSalvage.Survivor] = []
    var losses: [SalvageLoss] = []
    var torn: [SalvageLoss] = []
  }

  /// What can be taken over of a group, by rising sequence numbers.
  struct Group: Sendable {
    var segments: [Segment] = []
    var losses: [SalvageLoss] = []
    /// The places of the operations: which segment, and where in it.
    var order: [(segment: Int, offset: Int, sequence: UInt64)] = []
  }

  /// - Parameter isLast: whether nothing comes behind it.
  func load(_ plans: [Plan], isLast: Bool) throws(StoreError) -> Group {
    var group = Group()
    for plan in plans {
      guard var segment = try load(plan) else {
        group.losses.append(missing(plan))
        continue
      }
      if let storeID, let other = segment.head?.storeID, other != storeID {
        segment.survivors = []
        segment.losses = [whole(plan, segment.bytes, "it belongs to another store")]
      }
      group.segments.append(segment)
    }
    // What others come behind was not torn: it is missing.
    let last = group.segments.lastIndex { !$0.survivors.isEmpty } ?? -1
    for index in group.segments.indices where index < last || !isLast {
      group.segments[index].losses += group.segments[index].torn
      group.segments[index].torn = []
    }
    for (index, segment) in group.segments.enumerated() {
      group.order += segment.survivors.map { (index, $0.offset, $0.sequence) }
    }
    group.order.sort { ($0.sequence, $0.segment) < ($1.sequence, $1.segment) }
    return group
  }

  /// Nil when the file is missing.
  func load(_ plan: Plan) throws(StoreError) -> Segment? {
    guard let source = try bytes(of: plan.name) else { return nil }
    let head = try SegmentHead(source, plan.name, dictionaries: dictionaries)
    guard let head else {
      // A birth that died before its header was there.
      if source.bytes.allSatisfy({ $0 == 0 }), plan.limit == nil {
        return Segment(plan: plan, bytes: source, head: nil)
      }
      return Segment(
        plan: plan, bytes: source, head: nil,
        losses: [whole(plan, source, "no whole record was found in it")])
    }
    var salvage = SegmentSalvage(
      source, seed: head.seed, limit: plan.limit, promise: plan.promise)
    try salvage.run(from: head.firstOffset, plan.name)
    var segment = Segment(plan: plan, bytes: source, head: head, survivors: salvage.survivors)
    // Between a header that is damaged and the first record lies the dictionary.
    let holes = salvage.holes.drop { hole in
      !head.isWhole && hole.range.lowerBound == head.firstOffset
        && hole.range.upperBound == head.claimedOffset
    }
    segment.losses = holes.map { loss($0, plan, salvage) }
    segment.torn = salvage.torn.map { [loss($0, plan, salvage)] } ?? []
    count(&segment)
    return segment
  }

  /// How many records are lost is known where the manifest has counted them.
  private func count(_ segment: inout Segment) {
    guard let entry = segment.plan.entry, entry.isSealed else { return }
    let missing = Int(clamping: entry.recordCount) - segment.survivors.count
    guard missing == 0 || segment.losses.count == 1 else { return }
    for index in segment.losses.indices {
      segment.losses[index].recordCount = UInt64(max(0, missing))
    }
  }

  private func missing(_ plan: Plan) -> SalvageLoss {
    whole(plan, nil, "the file is missing")
  }

  private func whole(_ plan: Plan, _ source: SalvageBytes?, _ reason: String) -> SalvageLoss {
    let problem = source.flatMap { $0.problem(in: 0..<$0.bytes.count)?.message }
    var loss = SalvageLoss(
      kind: .segment, file: plan.name, offset: 0,
      lengthBytes: plan.entry?.lengthBytes ?? UInt64(source?.bytes.count ?? 0),
      reason: problem ?? reason)
    guard let entry = plan.entry, entry.isSealed else { return loss }
    loss.recordCount = entry.recordCount
    loss.after = SequenceNumber(rawValue: max(entry.firstSequence.rawValue, 1) - 1)
    loss.before = SequenceNumber(rawValue: entry.lastSequence.rawValue + 1)
    return loss
  }

  private func loss(
    _ hole: SegmentSalvage.Hole, _ plan: Plan, _ salvage: SegmentSalvage
  ) -> SalvageLoss {
    var loss = SalvageLoss(
      kind: .records, file: plan.name, offset: UInt64(hole.range.lowerBound),
      lengthBytes: UInt64(hole.range.count), reason: hole.reason)
    loss.after = SequenceNumber(rawValue: hole.after)
    loss.before = hole.before.map { SequenceNumber(rawValue: $0) }
    loss.breaksBatch = hole.breaksBatch
    loss.keys = hole.damaged.map { offset in
      let header = salvage.header(at: offset)
      let start = offset + header.keyOffset
      return SalvagedKey(
        keyspace: name(ofKeyspace: header.keyspace),
        key: Key(Array(salvage.source.bytes[start..<(start + header.keyLength)])),
        sequence: SequenceNumber(rawValue: header.sequence), isProven: false)
    }
    return loss
  }
}

extension SalvageReport {
  /// What was found of a group of segments.
  mutating func add(_ group: SalvageWork.Group) {
    losses += group.losses
    for segment in group.segments {
      segmentCount += 1
      readBytes += UInt64(segment.bytes.bytes.count)
      losses += segment.losses
      torn += segment.torn
      if segment.head?.isWhole == false { segmentsWithoutHeader.append(segment.plan.name) }
    }
  }
}
