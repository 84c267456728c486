public import Foundation
import MoraineEngine

extension LocalRepository {
  /// Returns the models that fulfil a predicate of Foundation.
  ///
  /// ```swift
  /// let adults = try await users.fetch(
  ///   #Predicate<User> { $0.age >= 18 && $0.city == "Oslo" },
  ///   sortBy: [SortDescriptor(\.name)], limit: 50)
  /// ```
  ///
  /// The parts of the predicate that compare a stored property with a value, joined by `&&`, can
  /// use an index of the property. All other parts are applied to decoded models. See
  /// ``ModelQuery/filter(_:)``.
  ///
  /// - Parameters:
  ///   - predicate: the condition.
  ///   - descriptors: the order, which is made in memory. Use ``ModelQuery/sorted(by:_:)`` for an
  ///     order that an index can have.
  ///   - limit: the most models; nil for all.
  /// - Throws: the errors of ``ModelQuery/fetch()``.
  public nonisolated func fetch(
    _ predicate: Predicate<Model>, sortBy descriptors: [SortDescriptor<Model>] = [],
    limit: Int? = nil
  ) async throws(StoreError) -> [Model] {
    let query = query().filter(predicate)
    guard !descriptors.isEmpty else {
      return try await (limit.map { query.limit($0) } ?? query).fetch()
    }
    let models = try await query.fetch().sorted(using: descriptors)
    return limit.map { Array(models.prefix($0)) } ?? models
  }
}

extension ModelQuery {
  /// Returns the query with another condition: a predicate of Foundation.
  ///
  /// Comparisons (`==`, `<`, `<=`, `>`, `>=`, `contains` of a range, and `starts(with:)` of a text)
  /// of a property with a value that are joined by `&&` become conditions that an index can answer.
  /// The predicate is applied to the decoded models in any case where one of its parts is something
  /// else.
  public func filter(_ predicate: Predicate<Model>) -> ModelQuery {
    var conditions: [QueryCondition<Model>] = []
    let translation = PredicateTranslation<Model>()
    let isComplete = translation.add(predicate.expression, to: &conditions)
    var query = self
    query.conditions += conditions
    return isComplete ? query : query.filter { try predicate.evaluate($0) }
  }
}

/// Turns parts of a predicate into conditions.
private struct PredicateTranslation<Model: Sendable> {
  /// Adds the conditions that an expression implies.
  ///
  /// - Returns: whether they are all that the expression says.
  func add(_ expression: Any, to conditions: inout [QueryCondition<Model>]) -> Bool {
    if let conjunction = expression as? any ConjunctionExpression {
      let (left, right) = conjunction.parts
      let isLeftComplete = add(left, to: &conditions)
      return add(right, to: &conditions) && isLeftComplete
    }
    guard let comparison = expression as? any ComparisonExpression,
      let condition = comparison.condition(on: Model.self)
    else { return false }
    conditions.append(condition)
    return condition.isComparedAsBySwift
  }
}

/// A conjunction of two expressions.
private protocol ConjunctionExpression {
  var parts: (Any, Any) { get }
}

extension PredicateExpressions.Conjunction: ConjunctionExpression {
  fileprivate var parts: (Any, Any) { (lhs, rhs) }
}

/// A comparison of two expressions.
private protocol ComparisonExpression {
  /// Returns the condition that the comparison is; nil when it does not compare a property that an
  /// index can have with a value.
  func condition<Model>(on model: Model.Type) -> QueryCondition<Model>?
}

extension PredicateExpressions.Equal: ComparisonExpression {
  fileprivate func condition<Model>(on model: Model.Type) -> QueryCondition<Model>? {
    PropertyComparison(model, lhs, rhs)?.condition { .equal($0) }
  }
}

extension PredicateExpressions.Comparison: ComparisonExpression {
  fileprivate func condition<Model>(on model: Model.Type) -> QueryCondition<Model>? {
    guard let comparison = PropertyComparison(model, lhs, rhs) else { return nil }
    return comparison.condition { value in
      let bound = QueryCondition<Model>.Bound(encode: value, isIncluded: isInclusive)
      return isLess != comparison.isReversed
        ? .range(lower: nil, upper: bound) : .range(lower: bound, upper: nil)
    }
  }

  private var isInclusive: Bool { op == .lessThanOrEqual || op == .greaterThanOrEqual }
  private var isLess: Bool { op == .lessThan || op == .lessThanOrEqual }
}

extension PredicateExpressions.RangeExpressionContains: ComparisonExpression {
  fileprivate func condition<Model>(on model: Model.Type) -> QueryCondition<Model>? {
    guard let bounds = (range as? any LiteralRange)?.bounds,
      let property = element as? any PropertyExpression
    else { return nil }
    return property.rangeCondition(on: model, bounds.lower, bounds.upper, bounds.includesUpper)
  }
}

extension PredicateExpressions.SequenceStartsWith: ComparisonExpression {
  fileprivate func condition<Model>(on model: Model.Type) -> QueryCondition<Model>? {
    guard let property = base as? any PropertyExpression,
      let prefix = (prefix as? any ValueExpression)?.constant as? String
    else { return nil }
    return property.prefixCondition(on: model, prefix)
  }
}

/// A range of two literal values in a predicate.
private protocol LiteralRange {
  var bounds: (lower: Any, upper: Any, includesUpper: Bool)? { get }
}

extension PredicateExpressions.Range: LiteralRange {
  fileprivate var bounds: (lower: Any, upper: Any, includesUpper: Bool)? {
    guard let lower = lower as? any ValueExpression, let upper = upper as? any ValueExpression
    else { return nil }
    return (lower.constant, upper.constant, false)
  }
}

extension PredicateExpressions.ClosedRange: LiteralRange {
  fileprivate var bounds: (lower: Any, upper: Any, includesUpper: Bool)? {
    guard let lower = lower as? any ValueExpression, let upper = upper as? any ValueExpression
    else { return nil }
    return (lower.constant, upper.constant, true)
  }
}

/// A value in a predicate.
private protocol ValueExpression {
  var constant: Any { get }
}

extension PredicateExpressions.Value: ValueExpression {
  fileprivate var constant: Any { value }
}

/// A property of the model in a predicate.
private protocol PropertyExpression {
  /// Returns a condition on the property; nil when it is not one of the model itself, or an index
  /// cannot have it.
  func condition<Model>(
    on model: Model.Type, _ value: Any,
    _ values: (@escaping @Sendable (inout IndexEncoder) -> Void) -> QueryCondition<Model>.Values
  ) -> QueryCondition<Model>?

  func rangeCondition<Model>(
    on model: Model.Type, _ lower: Any, _ upper: Any, _ includesUpper: Bool
  ) -> QueryCondition<Model>?

  func prefixCondition<Model>(on model: Model.Type, _ prefix: String) -> QueryCondition<Model>?
}

extension PredicateExpressions.KeyPath: PropertyExpression {
  fileprivate func condition<Model>(
    on model: Model.Type, _ value: Any,
    _ values: (@escaping @Sendable (inout IndexEncoder) -> Void) -> QueryCondition<Model>.Values
  ) -> QueryCondition<Model>? {
    guard let type = Output.self as? any IndexValue.Type else { return nil }
    func opened<Value: IndexValue>(_ type: Value.Type) -> QueryCondition<Model>? {
      guard let path = path(from: Model.self, to: Value.self), let value = value as? Value else {
        return nil
      }
      return QueryCondition(path, values { $0.append(value) })
    }
    return opened(type)
  }

  /// Returns the path of a property of the model itself; nil when it is not one.
  private func path<Model, Value>(
    from model: Model.Type, to value: Value.Type
  ) -> (any KeyPath<Model, Value> & Sendable)? {
    guard root is PredicateExpressions.Variable<Model>,
      let path = keyPath as? KeyPath<Model, Value>
    else { return nil }
    // A literal key path of a predicate captures nothing, so another task may use it.
    return unsafeBitCast(path, to: (any KeyPath<Model, Value> & Sendable).self)
  }

  fileprivate func prefixCondition<Model>(
    on model: Model.Type, _ prefix: String
  ) -> QueryCondition<Model>? {
    path(from: Model.self, to: String.self).map { QueryCondition($0, prefix: prefix) }
  }

  fileprivate func rangeCondition<Model>(
    on model: Model.Type, _ lower: Any, _ upper: Any, _ includesUpper: Bool
  ) -> QueryCondition<Model>? {
    guard let type = Output.self as? any IndexValue.Type else { return nil }
    func opened<Value: IndexValue>(_ type: Value.Type) -> QueryCondition<Model>? {
      guard let upper = upper as? Value else { return nil }
      return condition(on: model, lower) { lower in
        .range(
          lower: QueryCondition.Bound(encode: lower, isIncluded: true),
          upper: QueryCondition.Bound(encode: { $0.append(upper) }, isIncluded: includesUpper))
      }
    }
    return opened(type)
  }
}

/// A comparison of a property with a value, on either side.
private struct PropertyComparison<Model: Sendable> {
  let property: any PropertyExpression
  let value: Any
  /// Whether the value comes first.
  let isReversed: Bool

  init?(_ model: Model.Type, _ left: Any, _ right: Any) {
    if let property = left as? any PropertyExpression, let value = right as? any ValueExpression {
      (self.property, self.value, isReversed) = (property, value.constant, false)
    } else if let property = right as? any PropertyExpression,
      let value = left as? any ValueExpression
    {
      (self.property, self.value, isReversed) = (property, value.constant, true)
    } else {
      return nil
    }
  }

  func condition(
    _ values: (@escaping @Sendable (inout IndexEncoder) -> Void) -> QueryCondition<Model>.Values
  ) -> QueryCondition<Model>? {
    property.condition(on: Model.self, value, values)
  }
}
