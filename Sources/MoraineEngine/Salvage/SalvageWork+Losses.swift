import MoraineFormat

extension SalvageWork {
  func missing(_ plan: Plan) -> SalvageLoss { whole(plan, nil, "the file is missing") }

  /// All of a segment.
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

  /// A part of a segment.
  func loss(
    _ hole: SegmentSalvage.Hole, _ plan: Plan, _ source: SalvageBytes
  ) -> SalvageLoss {
    var loss = SalvageLoss(
      kind: .records, file: plan.name, offset: UInt64(hole.range.lowerBound),
      lengthBytes: UInt64(hole.range.count), reason: hole.reason)
    loss.after = SequenceNumber(rawValue: hole.after)
    // Behind a hole at the end of a sealed segment comes the next one.
    let end = plan.isSealed ? plan.entry.map { $0.lastSequence.rawValue + 1 } : nil
    loss.before = (hole.before ?? end).map { SequenceNumber(rawValue: $0) }
    loss.breaksBatch = hole.breaksBatch
    loss.keys = hole.damaged.map { offset in
      let header = source.header(at: offset)
      let start = offset + header.keyOffset
      return SalvagedKey(
        keyspace: name(ofKeyspace: header.keyspace),
        key: Key(Array(source.bytes[start..<(start + header.keyLength)])),
        sequence: SequenceNumber(rawValue: header.sequence), isProven: false)
    }
    return loss
  }
}
