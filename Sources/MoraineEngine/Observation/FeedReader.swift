import MoraineFormat

/// The position of one iterator, and the pin that keeps the changes after it from compaction.
///
/// Safety of `@unchecked Sendable`: only iterators and ``KeyspaceFeed`` hold a reader. Iterators
/// are not `Sendable`, so all copies of one iterator stay in one isolation region, and its calls
/// come one after the other. A ``KeyspaceFeed`` is for one task.
final class FeedReader: @unchecked Sendable {
  private let store: Store
  private let start: FeedStart
  private let keyspace: String?
  private var place: FeedPlace?
  private var pin: FeedPin?
  private var hasEnded = false

  /// - Parameter pin: the pin at the start of the feed, when the start is known.
  init(store: Store, start: FeedStart, keyspace: String?, pin: FeedPin?) {
    self.store = store
    self.start = start
    self.keyspace = keyspace
    self.pin = pin
  }

  /// Creates a reader after a place. Its pin holds from now on, before the first call.
  init(_ keyspace: Keyspace, after place: FeedPlace) {
    store = keyspace.store
    start = .after(place.sequence)
    self.keyspace = keyspace.name
    self.place = place
    pin = store.observers.pins.add(place.sequence)
  }

  /// The number of the last operation that was read; nil before the first call.
  var sequence: UInt64? { place?.sequence }

  /// Waits for changes and returns them. An empty array means that the feed has ended.
  func read() async throws(StoreError) -> [Store.Change] {
    if hasEnded { return [] }
    do throws(StoreError) {
      while !Task.isCancelled {
        try await store.joinOthers()
        guard var place = try await currentPlace() else { break }
        let changes = try await store.readChanges(&place, keyspace: keyspace)
        self.place = place
        pin?.move(to: place.sequence)
        if !changes.isEmpty { return changes }
        guard try await store.waitForChange(after: place.sequence) else { break }
      }
    } catch {
      hasEnded = true
      pin = nil
      // When another store's bytes were written over the files, the log looks damaged.
      if error.code == .corrupted { try await store.checkPresence() }
      throw error
    }
    hasEnded = true
    pin = nil
    return []
  }

  /// Returns nil when the store is closed or the task was cancelled.
  private func currentPlace() async throws(StoreError) -> FeedPlace? {
    if let place { return place }
    _ = await store.waitWhileSuspended()
    guard let begun = try await store.beginFeed(start) else { return nil }
    place = begun
    if pin == nil { pin = store.observers.pins.add(begun.sequence) }
    return begun
  }
}
