import MoraineFormat

/// Where one iterator stands, and what keeps compaction from taking away what it has not seen.
///
/// Safety of `@unchecked Sendable`: only iterators have it. They are not `Sendable`, so the copies
/// of one stay together where they are, and its calls come one after the other.
final class FeedReader: @unchecked Sendable {
  private let store: Store
  private let start: FeedStart
  private let keyspace: String?
  private var place: FeedPlace?
  private var pin: FeedPin?
  private var hasEnded = false

  /// - Parameter pin: at the start, when it is known.
  init(store: Store, start: FeedStart, keyspace: String?, pin: FeedPin?) {
    self.store = store
    self.start = start
    self.keyspace = keyspace
    self.pin = pin
  }

  /// Stands behind a place from now on, also before the first call.
  init(_ keyspace: Keyspace, behind place: FeedPlace) {
    store = keyspace.store
    start = .behind(place.sequence)
    self.keyspace = keyspace.name
    self.place = place
    pin = store.observers.pins.add(place.sequence)
  }

  /// The next changes, waiting for some; none when there will be no more.
  func read() async throws(StoreError) -> [Change] {
    if hasEnded { return [] }
    do throws(StoreError) {
      while !Task.isCancelled {
        try await store.joinOthers()
        guard var place = try await currentPlace() else { break }
        let changes = try await store.readChanges(&place, keyspace: keyspace)
        self.place = place
        pin?.move(to: place.sequence)
        if !changes.isEmpty { return changes }
        guard try await store.waitForChange(behind: place.sequence) else { break }
      }
    } catch {
      hasEnded = true
      pin = nil
      // Where another store's bytes were written over the files, the log looks damaged.
      if error.code == .corrupted { try await store.checkPresence() }
      throw error
    }
    hasEnded = true
    pin = nil
    return []
  }

  /// Nil when the store is closed.
  private func currentPlace() async throws(StoreError) -> FeedPlace? {
    if let place { return place }
    _ = await store.waitWhileSuspended()
    guard let begun = try await store.beginFeed(start) else { return nil }
    place = begun
    if pin == nil { pin = store.observers.pins.add(begun.sequence) }
    return begun
  }
}

/// How far an iterator has come.
struct FeedPlace {
  /// Everything up to here was seen.
  var sequence: UInt64
  /// Where to read on, as long as that segment is there.
  var segment: SegmentNumber?
  var offset = 0
  /// Deletes up to here were of no use to it: whoever begins with nothing need not hear of them.
  var needlessDeletes: UInt64 = 0
}
