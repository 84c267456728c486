import MoraineEngine

/// How a query finds its models.
struct QueryPlan<Model: Sendable>: Sendable {
  /// The index; nil when all models are decoded.
  var index: ModelIndex<Model>?
  /// The number of the index.
  var number: UInt64 = 0
  /// The keys of the entries that are read.
  var range = KeyRange.all
  var order = KeyOrder.ascending
  /// Whether the entries of the range are exactly the models that fulfil the conditions, so that
  /// the conditions need not be applied to decoded models.
  var isExact = false
  /// Whether the entries have the order of the query.
  var isSorted = false

  /// Two for each property with one value, and one for a property with a range.
  fileprivate var matchedCount = 0

  /// Returns whether a model with an entry comes before another in the order of the plan. Models
  /// that lack their entries can have the same value in a unique index; their own keys then decide.
  func comes(
    _ entry: [UInt8], _ key: [UInt8], before other: [UInt8], _ otherKey: [UInt8]
  ) -> Bool {
    if entry == other {
      let (left, right) = (QueryPlace.tie(key), QueryPlace.tie(otherKey))
      if left == right { return false }
      return left.lexicographicallyPrecedes(right) == (order == .ascending)
    }
    return entry.lexicographicallyPrecedes(other) == (order == .ascending)
  }
}

extension ModelQuery {
  /// Returns the best plan with the indexes that are ready.
  func plan(_ ready: [UInt64]) throws(StoreError) -> QueryPlan<Model> {
    let named = try declaredIndex()
    var best = QueryPlan<Model>()
    if let indexes = repository.indexes {
      for (index, number) in zip(indexes.definitions, indexes.numbers) where ready.contains(number)
      {
        if let named {
          guard named.name == index.name else { continue }
        } else if index.isPartial {
          continue
        }
        let plan = plan(index, number)
        guard plan.matchedCount > 0 || named != nil || (plan.isSorted && !sorting.isEmpty) else {
          continue
        }
        if best.index == nil || plan.isBetter(than: best) { best = plan }
      }
    }
    if requiresIndex, best.index == nil {
      throw StoreError(
        .invalidArgument,
        "no index that is ready answers the query; declare one, or wait for buildIndexes()",
        file: repository.place)
    }
    return best
  }

  /// Returns the plan with one index: equal values of its first properties, then a range of the
  /// next one.
  private func plan(_ index: ModelIndex<Model>, _ number: UInt64) -> QueryPlan<Model> {
    var plan = QueryPlan(index: index, number: number)
    let head = IndexLayout.prefix(of: number)
    var encoder = IndexEncoder(count: index.paths.count)
    var used: Set<Int> = []
    var depth = 0
    while depth < index.paths.count,
      let found = condition(on: index.paths[depth], index, isEqual: true, used),
      case .equal(let encode) = conditions[found].values
    {
      encoder.appendProperty(encode)
      used.insert(found)
      plan.matchedCount += 2
      depth += 1
    }
    var isCut = encoder.isCut
    plan.range = depth == 0 ? .prefix(Key(head)) : .prefix(Key(head + encoder.bytes))
    var isFirst = true
    while depth < index.paths.count,
      let found = condition(on: index.paths[depth], index, isEqual: false, used)
    {
      // Of many values, different ones may fulfil two conditions.
      if index.isManyValued, !isFirst { break }
      used.insert(found)
      if isFirst { plan.matchedCount += 1 }
      isFirst = false
      let (range, isLarger) = keys(of: conditions[found].values, after: head, encoder)
      plan.range = plan.range.intersection(range)
      isCut = isCut || isLarger
    }
    plan.isExact = !isCut && used.count == conditions.count && filters.isEmpty
    plan.isSorted = isSorted(by: index, after: depth)
    if plan.isSorted, let order = sorting.last?.order { plan.order = order }
    return plan
  }

  /// Returns a condition on a property that the plan does not use yet; nil when there is none.
  ///
  /// - Parameter isEqual: whether the condition is one value, and not a range or a prefix.
  private func condition(
    on path: PartialKeyPath<Model>, _ index: ModelIndex<Model>, isEqual: Bool, _ used: Set<Int>
  ) -> Int? {
    conditions.indices.first {
      !used.contains($0) && conditions[$0].path == path && conditions[$0].isEqual == isEqual
        && conditions[$0].isAboutEach == index.isManyValued
    }
  }

  /// Returns the keys of the entries with values that a condition allows.
  ///
  /// - Returns: also whether the range may have other entries too.
  private func keys(
    of values: QueryCondition<Model>.Values, after head: [UInt8], _ equal: IndexEncoder
  ) -> (range: KeyRange, isLarger: Bool) {
    switch values {
    case .equal(let encode):
      let bound = QueryCondition<Model>.Bound(encode: encode, isIncluded: true)
      return keys(from: bound, to: bound, after: head, equal)
    case .range(let lower, let upper): return keys(from: lower, to: upper, after: head, equal)
    case .prefix(let text):
      var encoder = equal
      encoder.append(beginningOf: text)
      // The bytes of a letter also begin those of the letter with an accent.
      return (.prefix(Key(head + encoder.bytes)), true)
    }
  }

  /// Returns the keys of the entries with values between two bounds.
  ///
  /// - Parameters:
  ///   - head: what the keys of all entries of the index begin with.
  ///   - equal: the values of the properties before.
  /// - Returns: also whether a bound was cut, so that the range may have other entries too.
  private func keys(
    from lower: QueryCondition<Model>.Bound?, to upper: QueryCondition<Model>.Bound?,
    after head: [UInt8], _ equal: IndexEncoder
  ) -> (range: KeyRange, isLarger: Bool) {
    var isCut = false
    func key(_ bound: QueryCondition<Model>.Bound) -> (key: Key, isCut: Bool) {
      var encoder = equal
      encoder.appendProperty(bound.encode)
      isCut = isCut || encoder.isCut
      return (Key(head + encoder.bytes.prefix(encoder.cutEnd ?? .max)), encoder.isCut)
    }
    let from = lower.map { bound in
      let (key, isCut) = key(bound)
      return bound.isIncluded || isCut ? key : KeyRange.prefix(key).upperBound ?? key
    }
    let to = upper.map { bound in
      let (key, isCut) = key(bound)
      return bound.isIncluded || isCut ? KeyRange.prefix(key).upperBound ?? key : key
    }
    return (KeyRange(from: from, upTo: to), isCut)
  }

  /// Whether the entries of an index have the order of the query, when the first `depth` properties
  /// have one value each.
  private func isSorted(by index: ModelIndex<Model>, after depth: Int) -> Bool {
    if index.isManyValued, depth == 0 { return false }
    guard let last = sorting.last else {
      // Entries with one value are in the order of their keys.
      return !isSortedByKey || depth == index.paths.count
    }
    guard sorting.allSatisfy({ $0.order == last.order }) else { return false }
    // A property with one value does not change the order. A property of which one of many values
    // is known has no such value.
    let fixed: Set<AnyKeyPath> =
      index.isManyValued ? [] : Set(index.paths[..<depth].map { $0 as AnyKeyPath })
    let wanted = sorting.filter { !fixed.contains($0.path) }
    let rest = index.paths[depth...]
    return wanted.count == rest.count && zip(wanted, rest).allSatisfy { $0.path == $1 }
  }
}

extension QueryPlan {
  fileprivate func isBetter(than other: QueryPlan) -> Bool {
    if matchedCount != other.matchedCount { return matchedCount > other.matchedCount }
    return isSorted && !other.isSorted
  }
}
