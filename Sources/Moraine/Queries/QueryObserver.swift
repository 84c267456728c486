import MoraineEngine

/// Follows the models of one query.
///
/// The observer keeps the result with the place of each model in it. A change of a model is applied
/// at its old and at its new place; the query is not run again. With a limit, the observer keeps
/// some models more than the limit, and reads again when these are used up.
actor QueryObserver<Model: Codable & Identifiable & Sendable> where Model.ID: Sendable {
  /// A model of the result.
  private struct Member {
    let place: QueryPlace
    /// Milliseconds since 1970; nil for a model that does not expire.
    let expiry: UInt64?
  }

  private let query: ModelQuery<Model>
  private let order: QueryOrder<Model>
  private let repository: LocalRepository<Model>
  /// The models that are kept: those of the result, and with a limit some more.
  private var kept = QueryModels<Model>()
  private var members: [Key: Member] = [:]
  /// Whether further models follow those that are kept.
  private var isCut = false
  private var expiries = ExpiryQueue()
  /// The changes after the state; nil before the first state, and when all must be read again.
  private var feed: KeyspaceFeed?
  /// The number of the last operation of the state.
  private var sequence = SequenceNumber.none
  private var hasEnded = false
  /// The models that the state lacks because they cannot be decoded, and why.
  private var unreadable: [Key: StoreError] = [:]
  /// The error of one of these models.
  private var failure: StoreError?

  init(_ query: ModelQuery<Model>) {
    var query = query
    if query.sorting.isEmpty { query.isSortedByKey = true }
    self.query = query
    order = QueryOrder(query.sorting)
    repository = query.repository
  }

  /// The most models that are kept; nil without a limit.
  private var keptLimit: Int? { query.limit.map { 2 * $0 + 64 } }

  /// Waits for the next state; nil when the store was closed or the task was cancelled.
  func next() async throws(StoreError) -> QueryUpdate<Model>? {
    while !hasEnded, !Task.isCancelled {
      do throws(StoreError) {
        guard let feed else { return try await load() }
        guard let changes = try await waitForChanges(feed) else { return nil }
        if let update = try await apply(changes) { return update }
      } catch {
        switch error.code {
        // Compaction has dropped deletes that the feed had not read, or one of another process has
        // removed files of a snapshot.
        case .cursorExpired: feed = nil
        case .suspended:
          feed = nil
          guard await repository.keyspace.store.waitWhileSuspended() else { return nil }
        case .closed:
          hasEnded = true
          return nil
        default:
          hasEnded = true
          feed = nil
          throw error
        }
      }
    }
    return nil
  }

  /// Reads the whole result.
  private func load() async throws(StoreError) -> QueryUpdate<Model> {
    try await repository.prepareToRead()
    let (query, keyspace, limit) = (query, repository.keyspace, keptLimit)
    let contents = try await keyspace.store.readingSnapshot {
      (snapshot) async throws(StoreError) -> Contents in
      // The feed begins before the reading: compaction then keeps the changes for it.
      let feed = keyspace.feed(after: snapshot.sequence)
      let unreadable = UnreadableModels()
      let found = try await QueryRun(query, snapshot, unreadable)
        .found(limit: limit.map { $0 + 1 }, after: nil)
      let models = snapshot.keyspace(named: keyspace.name)
      var kept: [(model: Model, key: Key, expiry: UInt64?)] = []
      for each in found.prefix(limit ?? .max) {
        kept.append((each.model, each.key, try models.expiry(forKey: each.key)))
      }
      return Contents(
        feed: feed, sequence: snapshot.sequence, kept: kept, isCut: found.count > kept.count,
        unreadable: unreadable.all)
    }
    feed = contents.feed
    sequence = contents.sequence
    isCut = contents.isCut
    (kept, members, expiries) = (QueryModels(), [:], ExpiryQueue())
    for each in contents.kept { insert(each.model, each.key, each.expiry) }
    unreadable = contents.unreadable
    failure = unreadable.first?.value
    return QueryUpdate(models: shown, steps: [], isReload: true, failure: failure)
  }

  /// What one reading of the whole result has found.
  private struct Contents: Sendable {
    let feed: KeyspaceFeed
    let sequence: SequenceNumber
    let kept: [(model: Model, key: Key, expiry: UInt64?)]
    let isCut: Bool
    let unreadable: [Key: StoreError]
  }

  /// The time by which the store hides models. A clock that was set back brings none back.
  private var storeTime: UInt64 { repository.keyspace.store.expiryMilliseconds }

  private var shown: QueryModels<Model> {
    guard let limit = query.limit else { return kept }
    var models = kept
    models.trim(to: limit)
    return models
  }

  private func insert(_ model: Model, _ key: Key, _ expiry: UInt64?) {
    let place = order.place(of: model, key)
    kept.insert(model, at: place)
    members[key] = Member(place: place, expiry: expiry)
    guard let expiry else { return }
    // Models that are saved again and again leave their earlier expiries in the queue.
    if expiries.count > 2 * members.count + 64 {
      expiries = ExpiryQueue()
      for (key, member) in members {
        if let expiry = member.expiry { expiries.add(expiry, key) }
      }
    } else {
      expiries.add(expiry, key)
    }
  }

  /// Waits for changes, or until the next model of the result expires.
  ///
  /// - Returns: the changes, which may be none; nil when the store was closed or the task was
  ///   cancelled.
  private func waitForChanges(
    _ feed: KeyspaceFeed
  ) async throws(StoreError) -> [Store.Change]? {
    guard let time = expiries.next(where: { members[$1]?.expiry == $0 }) else {
      let changes = try await feed.next()
      return changes.isEmpty ? nil : changes
    }
    let clock = repository.keyspace.store.clock
    if storeTime >= time { return [] }
    let waiting = Task { () -> Result<[Store.Change], StoreError> in
      do throws(StoreError) { return .success(try await feed.next()) } catch {
        return .failure(error)
      }
    }
    let timer = Task {
      do { try await clock.sleep(until: time) } catch { return false }
      waiting.cancel()
      return true
    }
    defer { timer.cancel() }
    let changes = try await withTaskCancellationHandler {
      await waiting.value
    } onCancel: {
      waiting.cancel()
    }.get()
    if !changes.isEmpty { return changes }
    timer.cancel()
    // Do not ask the clock: it may have been set back since.
    guard await timer.value, !Task.isCancelled else { return nil }
    // The wait has ended the feed. The next one begins at the same place.
    sequence = max(sequence, feed.sequence)
    self.feed = repository.keyspace.feed(after: sequence)
    return []
  }

  /// Applies changes, and the expiry of models.
  ///
  /// - Returns: the new state; nil when the result is the same.
  private func apply(_ changes: [Store.Change]) async throws(StoreError) -> QueryUpdate<Model>? {
    let now = try await expiringState(changes)
    let applied: (steps: [QueryStep], hasNewFailure: Bool)
    do throws(StoreError) { applied = try applyEach(changes, now) } catch {
      throw try await cause(of: error, in: now)
    }
    let hasNewFailure = applied.hasNewFailure
    let ended = try await removeEnded()
    let steps = applied.steps + ended
    if isCut, let limit = query.limit, kept.count < limit {
      feed = nil
      return try await load()
    }
    if hasNewFailure { failure = unreadable.first?.value }
    if steps.isEmpty, !hasNewFailure { return nil }
    return QueryUpdate(models: shown, steps: steps, isReload: false, failure: failure)
  }

  /// - Parameter now: the present state; nil when no entry of the store expires.
  /// - Returns: the steps, and whether another model than before cannot be decoded.
  private func applyEach(
    _ changes: [Store.Change], _ now: Store.Snapshot?
  ) throws(StoreError) -> (steps: [QueryStep], hasNewFailure: Bool) {
    var steps: [QueryStep] = []
    var hasNewFailure = false
    for change in changes {
      sequence = change.sequence
      do throws(StoreError) {
        // A model that has expired, or was deleted later, is no longer there.
        guard let bytes = change.value, try now?.contains(change.key) ?? true else {
          steps += remove(change.key)
          if unreadable.removeValue(forKey: change.key) != nil { hasNewFailure = true }
          continue
        }
        let model = try repository.format.decode(bytes, change.key, repository.place)
        if unreadable.removeValue(forKey: change.key) != nil { hasNewFailure = true }
        steps += try apply(model, change.key, try now?.expiry(forKey: change.key))
      } catch {
        guard error.isOfOneModel else { throw error }
        steps += remove(change.key)
        unreadable[change.key] = error
        hasNewFailure = true
      }
    }
    return (steps, hasNewFailure)
  }

  /// Returns the reason why a snapshot could not be read: `.cursorExpired`, after which all is read
  /// again, when another process has removed its files by a compaction.
  private func cause(
    of error: StoreError, in snapshot: Store.Snapshot?
  ) async throws(StoreError) -> StoreError {
    guard let snapshot, try await repository.keyspace.store.isOutdated(snapshot, error) else {
      return error
    }
    return StoreError(
      .cursorExpired, "another process has compacted the store", file: repository.place)
  }

  /// Removes the models whose time has come, unless they were renewed: the feed brings a renewed
  /// model later, and until then it stays as it is.
  private func removeEnded() async throws(StoreError) -> [QueryStep] {
    let time = storeTime
    var keys: [Key] = []
    while let key = expiries.pop(through: time, where: { members[$1]?.expiry == $0 }) {
      keys.append(key)
    }
    if keys.isEmpty { return [] }
    let now = try await repository.keyspace.store.snapshot()
      .keyspace(named: repository.keyspace.name)
    do throws(StoreError) { return try removeEnded(keys, at: time, now) } catch {
      throw try await cause(of: error, in: now)
    }
  }

  private func removeEnded(
    _ keys: [Key], at time: UInt64, _ now: Store.Snapshot
  ) throws(StoreError) -> [QueryStep] {
    var steps: [QueryStep] = []
    for key in keys {
      // The queue may have a time of a model twice.
      guard let member = members[key], let end = member.expiry, end <= time else { continue }
      let expiry = try now.expiry(forKey: key)
      // The snapshot may be of a moment before the end of the model, and have it still.
      guard try now.contains(key), expiry ?? .max > time else {
        steps += remove(key)
        continue
      }
      members[key] = Member(place: member.place, expiry: expiry)
      if let expiry { expiries.add(expiry, key) }
    }
    return steps
  }

  /// Returns the present state of the repository, which has the expiries of models; nil when no
  /// entry of the store expires.
  private func expiringState(
    _ changes: [Store.Change]
  ) async throws(StoreError) -> Store.Snapshot? {
    guard changes.contains(where: { $0.value != nil }) else { return nil }
    let snapshot = try await repository.keyspace.store.snapshot()
    return snapshot.hasExpiries ? snapshot.keyspace(named: repository.keyspace.name) : nil
  }

  /// Applies the new state of one model.
  private func apply(
    _ model: Model, _ key: Key, _ expiry: UInt64?
  ) throws(StoreError) -> [QueryStep] {
    guard try query.includes(model) else { return remove(key) }
    let place = order.place(of: model, key)
    let (count, from) = (kept.count, takeOut(key))
    if isCut, kept.lastPlace.map({ $0 < place }) ?? true {
      // The model comes after those that are kept.
      return steps(from: from, to: nil, count)
    }
    insert(model, key, expiry)
    let steps = steps(from: from, to: kept.offset(of: place), count)
    trimIfLong()
    return steps
  }

  private func remove(_ key: Key) -> [QueryStep] {
    let count = kept.count
    return steps(from: takeOut(key), to: nil, count)
  }

  /// Removes a model from those that are kept.
  ///
  /// - Returns: its offset; nil when it was not kept.
  private func takeOut(_ key: Key) -> Int? {
    guard let member = members.removeValue(forKey: key) else { return nil }
    let offset = kept.offset(of: member.place)
    kept.remove(at: member.place)
    return offset
  }

  /// Returns what a change among the models that are kept means for those up to the limit.
  ///
  /// - Parameters:
  ///   - from: the offset from which a model was removed; nil for none.
  ///   - to: the offset at which it is now; nil for none.
  ///   - count: the number of models that were kept before.
  private func steps(from: Int?, to: Int?, _ count: Int) -> [QueryStep] {
    let limit = query.limit ?? .max
    switch (from.flatMap { $0 < limit ? $0 : nil }, to.flatMap { $0 < limit ? $0 : nil }) {
    case (nil, nil): return []
    case (let from?, let to?): return [from == to ? .update(to) : .move(from: from, to: to)]
    case (let from?, nil):
      return [.remove(from)] + (kept.count >= limit ? [.insert(limit - 1)] : [])
    case (nil, let to?): return [.insert(to)] + (count >= limit ? [.remove(limit)] : [])
    }
  }

  /// Forgets models after the limit when they have become many.
  private func trimIfLong() {
    guard let limit = keptLimit, kept.count > 2 * limit else { return }
    for place in kept.places(from: limit) { members[place.key] = nil }
    kept.trim(to: limit)
    isCut = true
  }
}

/// The times at which models expire, the earliest first. An entry whose model has another expiry by
/// now is left out.
struct ExpiryQueue: Sendable {
  private var heap: [(time: UInt64, key: Key)] = []

  var count: Int { heap.count }

  mutating func add(_ time: UInt64, _ key: Key) {
    heap.append((time, key))
    var child = heap.count - 1
    while child > 0, heap[child].time < heap[(child - 1) / 2].time {
      heap.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  /// Returns the earliest time whose entry is valid, and removes those before it.
  mutating func next(where isValid: (UInt64, Key) -> Bool) -> UInt64? {
    while let first = heap.first {
      if isValid(first.time, first.key) { return first.time }
      removeFirst()
    }
    return nil
  }

  /// Removes the earliest valid entry if its time has come, and returns its key.
  mutating func pop(through time: UInt64, where isValid: (UInt64, Key) -> Bool) -> Key? {
    guard let earliest = next(where: isValid), earliest <= time else { return nil }
    let key = heap[0].key
    removeFirst()
    return key
  }

  private mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2]
      where child < heap.count && heap[child].time < heap[least].time {
        least = child
      }
      if least == parent { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }
}
