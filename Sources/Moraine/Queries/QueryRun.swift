import MoraineEngine
import Synchronization

/// One execution of a query, at one moment.
struct QueryRun<Model: Codable & Identifiable & Sendable>: Sendable where Model.ID: Sendable {
  /// Number of models that are decoded at a time, where a limit may end the query early.
  private static var stepCount: Int { 256 }

  private let query: ModelQuery<Model>
  private let plan: QueryPlan<Model>
  private let models: Store.Snapshot
  private let entries: Store.Snapshot
  /// The keys of the models that may lack entries.
  private let pending: Set<Key>
  /// Where models are noted that cannot be decoded; nil when one of them is an error.
  private let unreadable: UnreadableModels?

  private var repository: LocalRepository<Model> { query.repository }

  /// - Parameter unreadable: where models are noted that cannot be decoded, and that the result
  ///   then lacks; nil when one of them is an error.
  init(
    _ query: ModelQuery<Model>, _ snapshot: Store.Snapshot, _ unreadable: UnreadableModels? = nil
  ) async throws(StoreError) {
    self.query = query
    self.unreadable = unreadable
    models = snapshot.keyspace(named: query.repository.keyspace.name)
    guard let indexes = query.repository.indexes else {
      (entries, pending) = (models, [])
      plan = try query.plan([])
      return
    }
    entries = snapshot.keyspace(named: indexes.keyspace.name)
    let catalog = try IndexCatalog(
      try entries.value(forKey: IndexLayout.catalogKey), of: indexes.keyspace.name)
    var ready = catalog.ready.filter(indexes.numbers.contains)
    if query.requiresIndex, !indexes.numbers.allSatisfy(ready.contains) {
      // Indexes are added with the first model; without models they are complete.
      var walk = models.walk()
      if try models.next(&walk, limit: 1, bytes: 1).isEmpty { ready = indexes.numbers }
    }
    let plan = try query.plan(ready)
    self.plan = plan
    let isBuilding = indexes.numbers.contains { catalog[$0]?.state == .building }
    guard plan.index != nil else {
      pending = []
      if isBuilding { query.repository.buildInBackground() }
      return
    }
    let marked = try Self.markedRows(entries)
    // A mark may be there for an index that this program does not know.
    pending = Set(marked.lazy.filter { $0.value?.covers([plan.number]) != true }.map(\.key))
    let declared = catalog.live.filter(indexes.numbers.contains)
    if isBuilding || marked.contains(where: { $0.value?.covers(declared) != true }) {
      query.repository.buildInBackground()
    }
  }

  /// Returns the rows of the models that have a mark.
  private static func markedRows(
    _ entries: Store.Snapshot
  ) throws(StoreError) -> [Key: IndexRow?] {
    var rows: [Key: IndexRow?] = [:]
    for mark in try entries.entries(in: IndexLayout.allPending, limit: .max) {
      let key = IndexLayout.indexedKey(of: mark.key)
      let bytes = try entries.value(forKey: IndexLayout.rowKey(of: key))
      rows[key] = .some(
        try bytes.map { (bytes) throws(StoreError) in try StoredIndexRow(bytes, of: key).row })
    }
    return rows
  }

  func explanation() async throws(StoreError) -> QueryExplanation {
    QueryExplanation(
      index: plan.index?.name,
      candidateCount: plan.index == nil
        ? try await repository.count() : try entries.count(in: plan.range),
      isFiltering: plan.index == nil
        ? !query.conditions.isEmpty || !query.filters.isEmpty : !plan.isExact,
      isSortingInMemory: !plan.isSorted, pendingCount: pending.count)
  }

  /// Returns the number of models, without regard to the limit.
  func count() async throws(StoreError) -> Int {
    if query.conditions.isEmpty, query.filters.isEmpty, query.namedIndex == nil {
      return try await repository.count()
    }
    if plan.index != nil, plan.isExact, pending.isEmpty {
      if plan.index?.isManyValued != true { return try entries.count(in: plan.range) }
      var (range, seen): (KeyRange, Set<Key>) = (plan.range, [])
      while try nextEntries(&range, &seen, count: 16 * Self.stepCount) != nil {}
      return seen.count
    }
    var count = 0
    try await forEachStep(after: nil, try pendingModels()) { (found) throws(StoreError) in
      count += found.count
      return true
    }
    return count
  }

  /// Returns the models in the order of the query.
  ///
  /// - Parameters:
  ///   - limit: the most models; nil for all.
  ///   - token: the place after which the models come; nil for the beginning.
  func found(
    limit: Int?, after token: QueryToken?
  ) async throws(StoreError) -> [FoundModel<Model>] {
    if limit == 0 { return [] }
    let order = QueryOrder(query.sorting)
    let unindexed = try pendingModels()
    if plan.index != nil, plan.isSorted, unindexed.allSatisfy({ $0.entry != nil }),
      isUsable(token)
    {
      var (result, hasCut): ([FoundModel<Model>], Bool) = ([], false)
      try await forEachStep(after: token, unindexed) { (found) throws(StoreError) in
        let next = found.prefix((limit ?? .max) - result.count)
        hasCut = next.contains(where: isCut)
        result += next
        return !hasCut && result.count < limit ?? .max
      }
      if !hasCut { return result }
    }
    let from = token.map { order.place(of: $0.values, Key($0.key)) }
    var sorted: [(place: QueryPlace, found: FoundModel<Model>)] = []
    let most = sortedLimit(for: limit)
    let bound = limit.map { min(max(2 * $0, 1024), most) } ?? .max
    func sort() {
      sorted.sort { $0.place < $1.place }
      if let limit, sorted.count > limit { sorted.removeLast(sorted.count - limit) }
    }
    try await forEachStep(after: nil, unindexed) { (step) throws(StoreError) in
      for found in step {
        let place = order.place(of: found.model, found.key)
        if let from, !(from < place) { continue }
        sorted.append((place, found))
      }
      if sorted.count > bound { sort() }
      guard sorted.count <= most else {
        throw StoreError(
          .limitExceeded,
          "more than \(query.sortedLimit) models would be sorted in memory; add an index with the "
            + "order of the query, or a limit", file: repository.place)
      }
      return true
    }
    sort()
    return sorted.map(\.found)
  }

  /// Returns the most models that are sorted in memory. Pages and observed queries ask for some
  /// models more than the limit of the query: where the limit is allowed, so are these.
  private func sortedLimit(for limit: Int?) -> Int {
    // Without an order nothing is sorted but the result itself, which has all these models.
    if query.sorting.isEmpty { return .max }
    guard let limit, let own = query.limit, own <= query.sortedLimit else {
      return query.sortedLimit
    }
    return max(query.sortedLimit, limit)
  }

  /// Returns the place after a model.
  func token(after found: FoundModel<Model>) -> QueryToken {
    QueryToken(
      values: QueryOrder(query.sorting).values(of: found.model), key: found.key.bytes,
      entry: isCut(found) ? nil : found.entry)
  }

  /// Whether the place of a model in the plan's index is not its place in the order of the query.
  ///
  /// An index of several properties cuts a text earlier than the order does. The entries of texts
  /// with equal beginnings are then in the order of the next property. All others are in order.
  private func isCut(_ found: FoundModel<Model>) -> Bool {
    guard let index = plan.index, index.paths.count > 1, let entry = found.entry,
      // Most entries are too short for such a text.
      entry.count > IndexLayout.prefixLength + IndexEncoder.cutLength(of: index.paths.count),
      !query.sorting.isEmpty
    else { return false }
    return index.cuts(found.model)
  }

  /// Whether the entry of a token is one of the plan's index, so that reading can continue there.
  private func isUsable(_ token: QueryToken?) -> Bool {
    guard let token else { return true }
    guard let entry = token.entry else { return false }
    return entry.starts(with: IndexLayout.prefix(of: plan.number))
  }

  /// Calls the body with the models that fulfil the query, some at a time, in the order in which
  /// the plan finds them, until it returns false.
  ///
  /// - Parameter unindexed: the models that may lack entries, in the order of the plan.
  private func forEachStep(
    after token: QueryToken?, _ unindexed: [FoundModel<Model>],
    _ body: ([FoundModel<Model>]) throws(StoreError) -> Bool
  ) async throws(StoreError) {
    guard plan.index != nil else { return try await forEachStepOfAll(body) }
    var range = plan.range
    var rest = unindexed[...]
    if let entry = token?.entry {
      range = range.beginning(with: Key(entry), plan.order)
      rest = rest.drop { !follows($0, token) }
    }
    var seen: Set<Key> = []
    // One more than the limit shows whether a page is the last one.
    var count = max(1, min(query.limit.map { $0 + 1 } ?? .max, Self.stepCount))
    while let next = try nextEntries(&range, &seen, count: count) {
      var found = try decoded(next.entries.map(\.key), next.entries.map(\.recordKey))
      if let token { found.removeAll { !follows($0, token) } }
      if !plan.isExact { found = try included(found) }
      guard try body(merged(found, &rest, through: next.last)) else { return }
      count = min(2 * count, 16 * Self.stepCount)
    }
    if !rest.isEmpty { _ = try body(Array(rest)) }
  }

  /// Returns the models that may lack entries and that fulfil the query, in the order that their
  /// entries would have. One that cannot have an entry has none here, and comes last.
  private func pendingModels() throws(StoreError) -> [FoundModel<Model>] {
    guard let index = plan.index, !pending.isEmpty else { return [] }
    var result: [FoundModel<Model>] = []
    for each in try included(try decoded(Array(pending), nil)) {
      var keys: [Key] = []
      do throws(StoreError) {
        keys = try index.values(of: each.model).map {
          SecondaryIndexEntry(
            index: plan.number, value: $0.bytes, key: each.key, isUnique: $0.isUnique
          ).recordKey
        }
      } catch {
        guard error.code == .keyTooLarge else { throw error }
      }
      let entries = keys.filter(plan.range.contains).sorted()
      let first = plan.order == .ascending ? entries.first : entries.last
      result.append(FoundModel(model: each.model, key: each.key, entry: first?.bytes))
    }
    return result.sorted(by: comes)
  }

  /// Returns whether one model comes before another in the order of the plan.
  private func comes(_ one: FoundModel<Model>, before other: FoundModel<Model>) -> Bool {
    guard let entry = one.entry, let next = other.entry else {
      return one.entry != nil && other.entry == nil
    }
    return plan.comes(entry, one.key.bytes, before: next, other.key.bytes)
  }

  /// Returns whether a model comes after the place of a token in the order of the plan.
  private func follows(_ found: FoundModel<Model>, _ token: QueryToken?) -> Bool {
    guard let token, let last = token.entry, let entry = found.entry else { return true }
    return plan.comes(last, token.key, before: entry, found.key.bytes)
  }

  /// Returns the models that entries have led to, and those of the rest up to a key, in the order
  /// of the plan. The latter are removed from the rest.
  private func merged(
    _ found: [FoundModel<Model>], _ rest: inout ArraySlice<FoundModel<Model>>, through key: Key
  ) -> [FoundModel<Model>] {
    if rest.isEmpty { return found }
    var result: [FoundModel<Model>] = []
    for each in found {
      while let first = rest.first, comes(first, before: each) {
        result.append(rest.removeFirst())
      }
      result.append(each)
    }
    let later = KeyRange.all.after(key, plan.order)
    while let entry = rest.first?.entry, !later.contains(Key(entry)) {
      result.append(rest.removeFirst())
    }
    return result
  }

  private func included(
    _ found: [FoundModel<Model>]
  ) throws(StoreError) -> [FoundModel<Model>] {
    var result: [FoundModel<Model>] = []
    for each in found where try query.includes(each.model) { result.append(each) }
    return result
  }

  private func forEachStepOfAll(
    _ body: ([FoundModel<Model>]) throws(StoreError) -> Bool
  ) async throws(StoreError) {
    var walk = models.walk()
    while true {
      let step = try models.next(&walk, limit: 16 * Self.stepCount, bytes: 8 << 20)
      if step.isEmpty { return }
      guard try body(try included(try await decoded(step))) else { return }
    }
  }

  private func decoded(
    _ entries: [Store.Entry]
  ) async throws(StoreError) -> [FoundModel<Model>] {
    do throws(StoreError) {
      return zip(try await repository.decoded(entries), entries).map {
        FoundModel(model: $0, key: $1.key, entry: nil)
      }
    } catch {
      guard unreadable != nil, error.isOfOneModel else { throw error }
    }
    var result: [FoundModel<Model>] = []
    for entry in entries {
      if let model = try model(entry.value, entry.key) {
        result.append(FoundModel(model: model, key: entry.key, entry: nil))
      }
    }
    return result
  }

  /// Returns a decoded model; nil for one that cannot be decoded and was noted.
  private func model(_ bytes: [UInt8], _ key: Key) throws(StoreError) -> Model? {
    do throws(StoreError) {
      return try repository.format.decode(bytes, key, repository.place)
    } catch {
      guard let unreadable, error.isOfOneModel else { throw error }
      unreadable.add(error, key)
      return nil
    }
  }

  /// Reads the next entries of a range, and removes them from it.
  ///
  /// - Returns: the entries, each model once, without those of models that may lack entries, and
  ///   the key of the last entry; nil at the end of the range.
  private func nextEntries(
    _ range: inout KeyRange, _ seen: inout Set<Key>, count: Int
  ) throws(StoreError) -> (entries: [SecondaryIndexEntry], last: Key)? {
    let records = try entries.entries(in: range, order: plan.order, limit: count)
    guard let last = records.last else { return nil }
    range = range.after(last.key, plan.order)
    let isManyValued = plan.index?.isManyValued == true
    var found: [SecondaryIndexEntry] = []
    for record in records {
      let entry = try SecondaryIndexEntry(record)
      if pending.contains(entry.key) { continue }
      if !isManyValued || seen.insert(entry.key).inserted { found.append(entry) }
    }
    return (found, last.key)
  }

  /// Returns the models with some keys.
  ///
  /// - Parameter entries: the keys of the entries that have led to them; nil for none.
  private func decoded(
    _ keys: [Key], _ entries: [Key]?
  ) throws(StoreError) -> [FoundModel<Model>] {
    var result: [FoundModel<Model>] = []
    result.reserveCapacity(keys.count)
    for (position, bytes) in try models.values(forKeys: keys).enumerated() {
      // An entry without a model is possible only when the clock was set back.
      guard let bytes, let model = try model(bytes, keys[position]) else { continue }
      result.append(
        FoundModel(model: model, key: keys[position], entry: entries?[position].bytes))
    }
    return result
  }
}

/// The models of a query that cannot be decoded, and why.
final class UnreadableModels: Sendable {
  private let errors = Mutex<[Key: StoreError]>([:])

  var all: [Key: StoreError] { errors.withLock { $0 } }

  func add(_ error: StoreError, _ key: Key) { errors.withLock { $0[key] = error } }
}

extension StoreError {
  /// Whether the error concerns one model, which cannot be decoded.
  var isOfOneModel: Bool { code == .decodingFailed || code == .newerFormat }
}
