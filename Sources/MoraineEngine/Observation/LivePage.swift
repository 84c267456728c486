import MoraineFormat

/// A page of the live records of a keyspace, and the walk from there on.
package struct LivePage: Sendable {
  package var entries: [Store.Entry] = []
  /// Whether records were left out because they have expired.
  package var hidesRecords = false
  /// Nil after the last page.
  package var next: LiveWalk?
}

/// A walk over the live records of a keyspace, a page at a time, in the order of the log.
///
/// The walk returns every record that is live from its beginning to its end. A record that changes
/// during the walk moves to the end of the log, so it may come a second time. The walk follows such
/// records in rounds. The pages of the first two rounds have a limited size. The third round is one
/// page with all records up to the end that the log has then, so the walk ends whatever is written
/// while it runs.
package struct LiveWalk: Sendable {
  fileprivate static let pageLimits = FeedLimits(count: 256, bytes: 1 << 20)

  fileprivate var place = FeedPlace(sequence: 0)
  /// The last sequence number of this round; nil before the first round.
  fileprivate var end: UInt64?
  fileprivate var round = 0

  package init() {}
}

extension Keyspace {
  /// Returns the next live records: at most 256, from about a megabyte of the log. The page of the
  /// third round has no limit.
  ///
  /// - Parameter areExpired: whether the page has the records that have expired and were not
  ///   deleted, and not the others.
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  package func livePage(
    _ walk: LiveWalk, areExpired: Bool = false
  ) async throws(StoreError) -> LivePage {
    try await store.livePage(walk, in: name, areExpired)
  }
}

extension Store {
  fileprivate func livePage(
    _ walk: LiveWalk, in keyspace: String, _ areExpired: Bool
  ) async throws(StoreError) -> LivePage {
    try await checkOpen()
    return try await reading { (engine) throws(StoreError) in
      try engine.livePage(walk, in: keyspace, areExpired)
    } ?? LivePage()
  }
}

extension EngineState {
  fileprivate mutating func livePage(
    _ walk: LiveWalk, in keyspace: String, _ areExpired: Bool
  ) throws(StoreError) -> LivePage {
    guard let id = keyspaces.id(of: keyspace) else { return LivePage() }
    var walk = walk
    let isBounded = walk.round < 2
    let end = isBounded ? walk.end ?? log.lastSequence : log.lastSequence
    walk.end = end
    var page = LivePage()
    let limits = isBounded ? LiveWalk.pageLimits : FeedLimits(count: .max, bytes: .max)
    for address in try nextOperations(&walk.place, keyspace: id, through: end, limits) {
      let record = try operation(at: address)
      guard record.header.kind.effect == .sets else { continue }
      try add([UInt8](record.key), record.header.sequence, id, areExpired, to: &page)
    }
    if walk.place.sequence < end {
      page.next = walk
    } else if end < log.lastSequence {
      walk.round += 1
      walk.end = log.lastSequence
      page.next = walk
    }
    return page
  }

  /// Adds a record of the log to a page, if it is live and wanted.
  ///
  /// A record is live when the index has its key with the same sequence number. The address is not
  /// compared: while compaction moves the records of a segment, the log may have the new address of
  /// a record and the index the old one.
  private mutating func add(
    _ key: [UInt8], _ sequence: UInt64, _ keyspace: UInt16, _ areExpired: Bool,
    to page: inout LivePage
  ) throws(StoreError) {
    try key.withBytes { (bytes) throws(StoreError) in
      guard let found = try found(bytes, keyspace), found.record.header.sequence == sequence
      else { return }
      let isExpired = try log.table.isHidden(found.record, at: found.address, now)
      if isExpired, !areExpired { page.hidesRecords = true }
      guard isExpired == areExpired else { return }
      try log.table.verify(found.record, at: found.address)
      page.entries.append(
        Store.Entry(
          keyspace: keyspace, key: Key(key), sequence: SequenceNumber(rawValue: sequence),
          value: try log.table.value(of: found.record, at: found.address)))
    }
  }
}
