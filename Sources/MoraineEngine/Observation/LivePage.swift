import MoraineFormat

/// A part of what is live in a keyspace, and where to go on.
package struct LivePage: Sendable {
  package var entries: [Entry] = []
  /// Nil behind the last page.
  package var next: LiveWalk?
}

/// A walk over what is live in a keyspace, a page at a time, in the order of the log.
///
/// What is live from the beginning to the end comes. What is changed on the way moves to the end of
/// the log, so it may come a second time, and the walk follows it there: a page at a time once, and
/// then with all that is left in one page, for it must end however much is written meanwhile.
package struct LiveWalk: Sendable {
  fileprivate static let pageCount = 256
  fileprivate static let pageBytes = 1 << 20

  fileprivate var place = FeedPlace(sequence: 0)
  /// Where this round ends; nil before the first.
  fileprivate var end: UInt64?
  fileprivate var round = 0

  package init() {}
}

extension Keyspace {
  /// The next records that are live: at most 256, from about a megabyte of the log.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  package func livePage(_ walk: LiveWalk) async throws(StoreError) -> LivePage {
    try await store.livePage(walk, in: name)
  }
}

extension Store {
  fileprivate func livePage(
    _ walk: LiveWalk, in keyspace: String
  ) async throws(StoreError) -> LivePage {
    try await checkOpen()
    return try await reading { (engine) throws(StoreError) in
      try engine.livePage(walk, in: keyspace)
    } ?? LivePage()
  }
}

extension EngineState {
  fileprivate mutating func livePage(
    _ walk: LiveWalk, in keyspace: String
  ) throws(StoreError) -> LivePage {
    guard let id = keyspaces.id(of: keyspace) else { return LivePage() }
    var walk = walk
    let end = walk.end ?? log.lastSequence
    walk.end = end
    let isBounded = walk.round < 2
    var page = LivePage()
    page.entries = try readLive(
      &walk.place, keyspace: id, through: end, count: isBounded ? LiveWalk.pageCount : .max,
      bytes: isBounded ? LiveWalk.pageBytes : .max)
    if walk.place.sequence < end {
      page.next = walk
    } else if end < log.lastSequence {
      walk.round += 1
      walk.end = log.lastSequence
      page.next = walk
    }
    return page
  }

  /// Reads on in the log, and leaves out what is not live.
  ///
  /// What is live is asked by key and sequence number, not by address: while compaction moves a
  /// segment's records to another one, the log has the new place and the index may have the old.
  fileprivate mutating func readLive(
    _ place: inout FeedPlace, keyspace: UInt16, through end: UInt64, count: Int, bytes: Int
  ) throws(StoreError) -> [Entry] {
    var result: [Entry] = []
    var left = bytes
    for slot in log.table.order where log.table[slot].lastSequence > place.sequence {
      if place.segment != log.table.infos[slot].number {
        place.segment = log.table.infos[slot].number
        place.offset = log.table[slot].firstOffset
      }
      while place.offset < log.table[slot].end {
        guard left > 0, result.count < count else { return result }
        let address = Address(slot: slot, offset: place.offset)
        let record = try log.table.record(at: address)
        try log.table.verify(record, at: address)
        let header = record.header
        if header.sequence > end {
          place.sequence = end
          return result
        }
        place.offset += aligned(header.length)
        left -= header.length
        guard header.kind.isOperation, header.sequence > place.sequence
        else { continue }
        place.sequence = header.sequence
        guard header.kind == .put, header.keyspace == keyspace,
          let entry = try liveEntry([UInt8](record.key), header.sequence, keyspace)
        else { continue }
        result.append(entry)
      }
    }
    place.sequence = end
    return result
  }

  /// Nil when something newer is live.
  private mutating func liveEntry(
    _ key: [UInt8], _ sequence: UInt64, _ keyspace: UInt16
  ) throws(StoreError) -> Entry? {
    try key.withBytes { (bytes) throws(StoreError) in
      let hash = hash(bytes, keyspace)
      try validatePages(hash)
      guard
        let found = try log.table.find(bytes, keyspace, hash: hash, in: live.index),
        found.record.header.sequence == sequence
      else { return nil }
      try log.table.verify(found.record, at: found.address)
      return Entry(
        keyspace: keyspace, key: Key(key), sequence: SequenceNumber(rawValue: sequence),
        value: try log.table.value(of: found.record, at: found.address))
    }
  }
}
