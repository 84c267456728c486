import MoraineFormat

extension EngineState {
  /// How much one step of a feed reads and gives at most.
  private static let feedCount = 256
  private static let feedBytes = 1 << 20

  /// Reads on in the log, which has the changes in their order: neighbours are compacted together,
  /// and keep their sequence numbers.
  ///
  /// - Parameter keyspace: nil for all that have names, and the unnamed one.
  /// - Returns: at most 256 changes, from at most about a megabyte; none may mean that none of
  ///   these was wanted.
  func readChanges(
    _ place: inout FeedPlace, keyspace: UInt16?
  ) throws(StoreError) -> [Change] {
    var result: [Change] = []
    var left = Self.feedBytes
    for slot in table.order where table[slot].lastSequence > place.sequence {
      if place.segment != table.infos[slot].number {
        place.segment = table.infos[slot].number
        place.offset = table[slot].firstOffset
      }
      while place.offset < table[slot].end {
        guard left > 0, result.count < Self.feedCount else { return result }
        let address = Address(slot: slot, offset: place.offset)
        let record = try table.record(at: address)
        try table.verify(record, at: address)
        let header = record.header
        place.offset += aligned(header.length)
        left -= header.length
        guard header.kind.isOperation, header.sequence > place.sequence
        else { continue }
        place.sequence = header.sequence
        guard keyspace ?? header.keyspace == header.keyspace,
          let name = keyspaces.name(of: header.keyspace)
        else { continue }
        result.append(try change(record, at: address, in: name))
      }
    }
    // A failed operation uses its number up.
    place.sequence = max(place.sequence, lastSequence)
    return result
  }

  private func change(
    _ record: RecordReference, at address: Address, in keyspace: String
  ) throws(StoreError) -> Change {
    let header = record.header
    let key = Key([UInt8](record.key))
    return Change(
      keyspace: keyspace, key: key,
      value: header.kind == .put ? try table.value(of: record, at: address) : nil,
      sequence: SequenceNumber(rawValue: header.sequence), cursor: cursor(at: header.sequence))
  }

  func cursor(at sequence: UInt64) -> ChangeCursor {
    ChangeCursor(
      storeID: manifest.storeID, epoch: manifest.epoch, cut: manifest.cuts.last?.number ?? 0,
      sequence: sequence)
  }

  /// - Throws: `.cursorDiverged`, `.cursorExpired`.
  func check(_ cursor: ChangeCursor) throws(StoreError) {
    guard cursor.storeID == manifest.storeID else {
      throw StoreError(.cursorDiverged, "the cursor is of another store; begin anew without it")
    }
    let later = manifest.epochs.filter { $0.epoch > cursor.epoch }.min { $0.epoch < $1.epoch }
    let isOfThisLife =
      cursor.epoch <= manifest.epoch
      && later.map { cursor.sequence < $0.firstSequence } ?? true
    let isLost = manifest.cuts.contains {
      $0.number > cursor.cut ?? .max && $0.lastSequence < cursor.sequence
    }
    guard isOfThisLife, !isLost, cursor.sequence.rawValue <= lastSequence else {
      throw StoreError(
        .cursorDiverged,
        "the cursor is of changes that this store has lost, in a crash or a restore; begin anew")
    }
    try checkHorizon(FeedPlace(sequence: cursor.sequence.rawValue))
  }

  /// - Throws: `.cursorExpired` when a delete behind the place may be gone from the log.
  func checkHorizon(_ place: FeedPlace) throws(StoreError) {
    let horizon = manifest.feedHorizon.rawValue
    guard horizon > max(place.sequence, place.needlessDeletes) else { return }
    throw StoreError(
      .cursorExpired,
      "compaction has dropped deletes up to sequence \(horizon), and \(place.sequence) was seen; "
        + "read everything anew")
  }
}
