import MoraineFormat
import MoraineStorage

/// An operation that was found in a damaged store.
struct SalvagedOperation {
  let header: RecordHeader
  let key: Key
  /// Nil for a delete, and for a value that cannot be decompressed.
  let value: [UInt8]?
  let expiry: Expiry
}

/// Fills a new store with the records that were found in a damaged one.
struct SalvageTarget {
  private struct Operation: Sendable {
    let keyspace: String
    let isOrdered: Bool
    let key: Key
    let value: [UInt8]?
    let expiry: Expiry
  }

  private static let batchBytes = 1 << 20
  private static let batchCount = 1000

  let store: Store
  let work: SalvageWork
  private(set) var report: SalvageReport
  private var pending: [Operation] = []
  private var pendingBytes = 0
  /// The losses of keys that are too long for their ordered keyspace, by its name.
  private var strayKeys: [String: [Key: SalvageLoss]] = [:]

  init(store: Store, work: SalvageWork, report: SalvageReport) {
    self.store = store
    self.work = work
    self.report = report
  }

  mutating func fill(
    _ thread: SerialQueue, _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(StoreError) {
    let total = work.listing.segments.values.reduce(0, &+)
    for (index, plans) in work.groups.enumerated() {
      let isLast = index == work.groups.count - 1
      let group = try await thread.run { [work] () throws(StoreError) in
        try work.load(plans, isLast: isLast)
      }
      try await process(group)
      progress?(
        Store.Progress(completedBytes: report.readBytes, totalBytes: max(total, report.readBytes)))
    }
    try await flush()
    try await store.removeClaimsOfLargeValues()
    report.losses += strayKeys.values.flatMap(\.values).sorted { $0.after < $1.after }
    report.count = try await store.keyspaceStatistics().reduce(0) { $0 + $1.count }
    try await lookForKeys()
    let verification = try await store.verify()
    if let problem = verification.problems.first { throw problem }
  }

  private mutating func process(_ group: SalvageWork.Group) async throws(StoreError) {
    assert(
      zip(group.order, group.order.dropFirst()).allSatisfy { $0.sequence <= $1.sequence },
      "the operations are not in the order of the log")
    report.add(group)
    // Compaction's output contains some of the records of its inputs. One readable copy is enough.
    var last: (sequence: UInt64, loss: SalvageLoss?) = (0, nil)
    var taken: (segment: Int, offset: Int)?
    for place in group.order {
      if place.sequence != last.sequence {
        if let loss = last.loss { report.losses.append(loss) }
        taken = nil
      } else if last.loss == nil {
        if let taken { compare(group, (place.segment, place.offset), with: taken) }
        continue
      }
      let loss = try await process(group.segments[place.segment], at: place.offset)
      if loss == nil { taken = (place.segment, place.offset) }
      last = (place.sequence, loss)
    }
    if let loss = last.loss { report.losses.append(loss) }
  }

  /// Reports a loss where two different operations have the same sequence number: nothing shows
  /// which of them came last.
  private mutating func compare(
    _ group: SalvageWork.Group, _ other: (segment: Int, offset: Int),
    with taken: (segment: Int, offset: Int)
  ) {
    let segment = group.segments[other.segment]
    let (left, right) = (
      group.segments[taken.segment].operation(at: taken.offset),
      segment.operation(at: other.offset)
    )
    let isSame =
      left.header.kind == right.header.kind && left.header.keyspace == right.header.keyspace
      && left.key == right.key && (right.value == nil || left.value == right.value)
    guard !isSame else { return }
    report.losses.append(
      loss(
        right, of: segment, at: other.offset,
        "another operation has the same sequence number; which of them is valid is not known"))
  }

  /// - Returns: a loss when the record's value cannot be recovered.
  private mutating func process(
    _ segment: SalvageWork.Segment, at offset: Int
  ) async throws(StoreError) -> SalvageLoss? {
    let record = segment.operation(at: offset)
    let keyspace = work.name(ofKeyspace: record.header.keyspace)
    // Indexes may lack entries of lost records; a program that knows them builds them again.
    if IndexLayout.indexedName(of: keyspace) != nil { return nil }
    if record.header.kind.effect == .sets, record.value == nil {
      return loss(
        record, of: segment, at: offset,
        record.header.codec == .lz4Dictionary
          ? "its value needs the dictionary in the segment's header, which is damaged"
          : "its value cannot be decompressed")
    }
    let isOrdered = work.isOrdered(keyspace: record.header.keyspace)
    if isOrdered, record.key.bytes.count > StoreLimits.orderedKeyLengthBytes {
      // The log of a copy may have such a key from before its keyspace became ordered, and removes
      // it later.
      let lost = loss(
        record, of: segment, at: offset, "its key is too long for its ordered keyspace")
      strayKeys[keyspace, default: [:]][record.key] = record.value == nil ? nil : lost
      return nil
    }
    report.recordCount += 1
    let bytes = record.key.bytes.count + (record.value?.count ?? 0)
    // A value of 1 GiB fits into no batch but its own.
    if pending.count >= Self.batchCount || pendingBytes + bytes > Self.batchBytes {
      try await flush()
    }
    pending.append(
      Operation(
        keyspace: keyspace, isOrdered: isOrdered, key: record.key, value: record.value,
        expiry: record.expiry))
    pendingBytes += bytes
    return nil
  }

  private func loss(
    _ record: SalvagedOperation, of segment: SalvageWork.Segment,
    at offset: Int, _ reason: String
  ) -> SalvageLoss {
    var loss = SalvageLoss(
      kind: .value, file: segment.plan.name, offset: UInt64(offset),
      lengthBytes: UInt64(record.header.length), reason: reason)
    loss.recordCount = 1
    let sequence = record.header.sequence
    loss.after = SequenceNumber(rawValue: sequence == 0 ? 0 : sequence - 1)
    loss.before = SequenceNumber(rawValue: sequence + 1)
    loss.keys = [
      SalvagedKey(
        keyspace: work.name(ofKeyspace: record.header.keyspace), key: record.key,
        sequence: SequenceNumber(rawValue: sequence), isVerified: true)
    ]
    return loss
  }

  private mutating func flush() async throws(StoreError) {
    guard !pending.isEmpty else { return }
    assert(pending.count <= Self.batchCount, "a batch has too many operations")
    assert(pendingBytes <= Self.batchBytes || pending.count == 1, "a batch has too many bytes")
    let (operations, store) = (pending, store)
    pending = []
    pendingBytes = 0
    do {
      try await store.write(durability: Durability.none) { batch in
        for operation in operations {
          let name = operation.keyspace
          let keyspace =
            try operation.isOrdered
            ? store.orderedKeyspace(named: name) : store.keyspace(named: name)
          if let value = operation.value {
            try batch.set(value, forKey: operation.key, in: keyspace, expiring: operation.expiry)
          } else {
            // Also of an entry that has ended by now: the clock may be wrong.
            let place = batch.place(operation.key, keyspace)
            if try batch.storedValue(place) != nil { batch.delete(place) }
          }
        }
      }
    } catch let error as StoreError {
      throw error
    } catch {
      fatalError("a batch of a salvage threw an unexpected error: \(error)")
    }
  }

  /// Determines for each lost key whether the new store has an older or a later value.
  private mutating func lookForKeys() async throws(StoreError) {
    assert(pending.isEmpty, "a key is looked up before all operations are written")
    for index in report.losses.indices {
      for place in report.losses[index].keys.indices {
        let key = report.losses[index].keys[place]
        let keyspace = try store.keyspace(named: key.keyspace)
        report.losses[index].keys[place].hasValue = try await keyspace.contains(key.key)
      }
    }
  }
}

extension SalvageWork.Segment {
  /// Returns a put or a delete that was found whole. The value is nil when it cannot be recovered.
  func operation(at offset: Int) -> SalvagedOperation {
    let header = bytes.header(at: offset)
    return bytes.bytes.withUnsafeBytes { bytes in
      let record = RecordReference(base: bytes.baseAddress! + offset, header: header)
      return SalvagedOperation(
        header: header, key: Key([UInt8](record.key)), value: value(of: record),
        expiry: record.expiryMilliseconds.map { .at(milliseconds: $0) } ?? .never)
    }
  }

  private func value(of record: RecordReference) -> [UInt8]? {
    if record.header.kind.effect == .removes { return nil }
    var dictionary: [UInt8] = []
    switch record.header.codec {
    case .raw: return [UInt8](record.stored)
    case .lz4: break
    case .lz4Dictionary:
      guard let shared = head?.dictionary, !shared.isEmpty else { return nil }
      dictionary = shared
    }
    var value = [UInt8](repeating: 0, count: record.header.rawLength)
    let isSound = value.withUnsafeMutableBytes { target in
      if dictionary.isEmpty { return Decompressor.decompress(record.stored, into: target) }
      return dictionary.withUnsafeBytes {
        Decompressor.decompress(record.stored, into: target, dictionary: $0)
      }
    }
    return isSound ? value : nil
  }
}
