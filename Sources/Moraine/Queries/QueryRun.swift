import MoraineEngine

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

  private var repository: LocalRepository<Model> { query.repository }

  init(_ query: ModelQuery<Model>) async throws(StoreError) {
    try await query.repository.prepare()
    let snapshot = try await query.repository.keyspace.store.snapshot()
    try await self.init(query, snapshot)
  }

  init(_ query: ModelQuery<Model>, _ snapshot: Store.Snapshot) async throws(StoreError) {
    self.query = query
    models = snapshot.keyspace(named: query.repository.keyspace.name)
    guard let indexes = query.repository.indexes else {
      (entries, pending) = (models, [])
      plan = try query.plan([])
      return
    }
    entries = snapshot.keyspace(named: indexes.keyspace.name)
    let catalog = try IndexCatalog(
      try entries.value(forKey: IndexLayout.catalogKey), of: indexes.keyspace.name)
    let plan = try query.plan(catalog.ready.intersection(indexes.numbers))
    self.plan = plan
    guard plan.index != nil else {
      pending = []
      return
    }
    let marked = try Self.markedRows(entries)
    // A mark may be there for an index that this program does not know.
    pending = Set(marked.lazy.filter { $0.value?.covers([plan.number]) != true }.map(\.key))
    let declared = catalog.live.intersection(indexes.numbers)
    if marked.contains(where: { $0.value?.covers(declared) != true }),
      !indexes.keyspace.store.isReadOnly
    {
      IndexBuilds.begin(IndexBuilder(repository: query.repository, indexes: indexes))
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
      isSortingInMemory: !plan.isSorted || !pending.isEmpty, pendingCount: pending.count)
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
    try await forEachStep(after: nil) { (found) throws(StoreError) in
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
    if plan.index != nil, plan.isSorted, pending.isEmpty, isUsable(token) {
      var result: [FoundModel<Model>] = []
      try await forEachStep(after: token) { (found) throws(StoreError) in
        result += found
        return result.count < limit ?? .max
      }
      return limit.map { Array(result.prefix($0)) } ?? result
    }
    var sorted: [(place: QueryToken, found: FoundModel<Model>)] = []
    let bound = limit.map { min(max(2 * $0, 1024), query.sortedLimit) } ?? .max
    func sort() {
      sorted.sort { order.precedes($0.place, $1.place) }
      if let limit, sorted.count > limit { sorted.removeLast(sorted.count - limit) }
    }
    try await forEachStep(after: nil) { (step) throws(StoreError) in
      for found in step {
        let place = found.token(query.sorting)
        if let token, !order.precedes(token, place) { continue }
        sorted.append((place, found))
      }
      if sorted.count > bound { sort() }
      guard sorted.count <= query.sortedLimit else {
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

  /// Whether the entry of a token is one of the plan's index, so that reading can continue there.
  private func isUsable(_ token: QueryToken?) -> Bool {
    guard let token else { return true }
    guard let entry = token.entry else { return false }
    return entry.starts(with: IndexLayout.prefix(of: plan.number))
  }

  /// Calls the body with the models that fulfil the query, some at a time, in the order in which
  /// the plan finds them, until it returns false.
  private func forEachStep(
    after token: QueryToken?,
    _ body: ([FoundModel<Model>]) throws(StoreError) -> Bool
  ) async throws(StoreError) {
    guard plan.index != nil else { return try await forEachStepOfAll(body) }
    var range = plan.range
    if let entry = token?.entry { range = range.after(Key(entry), plan.order) }
    var seen: Set<Key> = []
    // One more than the limit shows whether a page is the last one.
    var count = max(1, min(query.limit.map { $0 + 1 } ?? .max, Self.stepCount))
    while let next = try nextEntries(&range, &seen, count: count) {
      var found = try decoded(next.map(\.key), next.map(\.recordKey))
      if !plan.isExact { found = try included(found) }
      guard try body(found) else { return }
      count = min(2 * count, 16 * Self.stepCount)
    }
    if pending.isEmpty { return }
    _ = try body(try included(try decoded(Array(pending), nil)))
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
      var found: [FoundModel<Model>] = []
      for (model, entry) in zip(try await repository.decoded(step), step)
      where try query.includes(model) {
        found.append(FoundModel(model: model, key: entry.key, entry: nil))
      }
      guard try body(found) else { return }
    }
  }

  /// Reads the next entries of a range, and removes them from it.
  ///
  /// - Returns: the entries, each model once, without those of models that may lack entries; nil at
  ///   the end of the range.
  private func nextEntries(
    _ range: inout KeyRange, _ seen: inout Set<Key>, count: Int
  ) throws(StoreError) -> [SecondaryIndexEntry]? {
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
    return found
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
      guard let bytes else { continue }
      let model = try repository.format.decode(bytes, keys[position], repository.place)
      result.append(
        FoundModel(model: model, key: keys[position], entry: entries?[position].bytes))
    }
    return result
  }
}
