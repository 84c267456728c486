import Foundation
import MoraineEngine

/// A condition on one property of a model, which an index of that property can answer.
struct QueryCondition<Model: Sendable>: Sendable {
  /// One end of a range of values.
  struct Bound: Sendable {
    /// Appends the value of the bound.
    let encode: @Sendable (inout IndexEncoder) -> Void
    let isIncluded: Bool
  }

  enum Values: Sendable {
    case equal(@Sendable (inout IndexEncoder) -> Void)
    case range(lower: Bound?, upper: Bound?)
    /// Texts that begin with a text.
    case prefix(String)
  }

  let path: any PartialKeyPath<Model> & Sendable
  let values: Values
  /// Whether the condition is about one value, and not about a range or a prefix.
  var isEqual: Bool {
    if case .equal = values { true } else { false }
  }

  /// Whether the property has many values, one of which must fulfil the condition.
  let isAboutEach: Bool
  /// Whether Swift compares the values as an index does. Other values may have another order, such
  /// as numbers that are not a number.
  let isComparedAsBySwift: Bool
  /// Returns whether a model fulfils the condition.
  let holds: @Sendable (Model) -> Bool

  /// Creates a condition on a property.
  init<Value: IndexValue>(
    _ path: any KeyPath<Model, Value> & Sendable, _ values: Values
  ) {
    self.path = path
    self.values = values
    isAboutEach = false
    isComparedAsBySwift =
      Value.self is any FixedWidthInteger.Type || Value.self == String.self
      || Value.self == Bool.self || Value.self == UUID.self
    let test = Test(values)
    holds = { test.includes($0[keyPath: path]) }
  }

  /// Creates a condition that one of many values must fulfil.
  init<Elements: Sequence & SendableMetatype>(
    each path: any KeyPath<Model, Elements> & Sendable, _ values: Values
  ) where Elements.Element: IndexValue {
    self.path = path
    self.values = values
    isAboutEach = true
    isComparedAsBySwift = false
    let test = Test(values)
    holds = { $0[keyPath: path].contains(where: test.includes) }
  }

  /// Creates a condition on a text: it begins with another text, as `String.hasPrefix(_:)` says.
  init(_ path: any KeyPath<Model, String> & Sendable, prefix: String) {
    self.path = path
    values = .prefix(prefix)
    isAboutEach = false
    // A predicate compares characters, and so "\r" is not the beginning of "\r\n".
    isComparedAsBySwift = false
    holds = { $0[keyPath: path].hasPrefix(prefix) }
  }

  /// Creates a condition on a property that may be nil: it has a value of a range.
  init<Values: QueryRangeConvertible>(
    _ path: any KeyPath<Model, Values.Value?> & Sendable, in range: Values
  ) {
    let range = range.queryRange
    // Nil comes before all values, so a range without a lower bound begins after it.
    let absent = Bound(encode: { encoder in encoder.appendAbsent() }, isIncluded: false)
    guard case .range(let lower, let upper) = range.values(for: Model.self) else {
      preconditionFailure("the values of a range are a range")
    }
    self.init(path, .range(lower: lower ?? absent, upper: upper))
  }

  /// Compares encoded values, so that a model fulfils a condition if, and only if, an index says
  /// so.
  private struct Test: Sendable {
    let lower: [UInt8]?
    let upper: [UInt8]?
    let includesLower: Bool
    let includesUpper: Bool

    init(_ values: Values) {
      func bytes(_ encode: (inout IndexEncoder) -> Void) -> [UInt8] {
        var encoder = IndexEncoder()
        encode(&encoder)
        return encoder.bytes
      }
      switch values {
      case .equal(let encode):
        (lower, upper) = (bytes(encode), bytes(encode))
        (includesLower, includesUpper) = (true, true)
      case .range(let lower, let upper):
        (self.lower, self.upper) = (lower.map { bytes($0.encode) }, upper.map { bytes($0.encode) })
        includesLower = lower?.isIncluded ?? true
        includesUpper = upper?.isIncluded ?? true
      case .prefix: preconditionFailure("a prefix is compared as text")
      }
    }

    @Sendable func includes(_ value: some IndexValue) -> Bool {
      var encoder = IndexEncoder()
      value.encode(into: &encoder)
      let bytes = encoder.bytes
      if let lower {
        if bytes.lexicographicallyPrecedes(lower) { return false }
        if !includesLower, bytes == lower { return false }
      }
      if let upper {
        if upper.lexicographicallyPrecedes(bytes) { return false }
        if !includesUpper, bytes == upper { return false }
      }
      return true
    }
  }
}

/// A range of values for a condition of a query. Swift's ranges are such ranges:
/// `20..<30`, `20...30`, `20...`, `..<30`, `...30`.
public struct QueryRange<Value: IndexValue>: Sendable {
  let lower: Value?
  let upper: Value?
  var includesLower = true
  var includesUpper = true

  func values<Model>(for model: Model.Type) -> QueryCondition<Model>.Values {
    .range(
      lower: Self.bound(lower, includesLower), upper: Self.bound(upper, includesUpper))
  }

  private static func bound<Model>(
    _ value: Value?, _ isIncluded: Bool
  ) -> QueryCondition<Model>.Bound? {
    guard let value else { return nil }
    return QueryCondition<Model>.Bound(
      encode: { encoder in encoder.append(value) }, isIncluded: isIncluded)
  }
}

/// A type that stands for a range of values in a condition of a query.
public protocol QueryRangeConvertible<Value> {
  /// The type of the property that the condition is about.
  associatedtype Value: IndexValue
  /// The values.
  var queryRange: QueryRange<Value> { get }
}

extension Range: QueryRangeConvertible where Bound: IndexValue {
  public var queryRange: QueryRange<Bound> {
    QueryRange(lower: lowerBound, upper: upperBound, includesUpper: false)
  }
}

extension ClosedRange: QueryRangeConvertible where Bound: IndexValue {
  public var queryRange: QueryRange<Bound> { QueryRange(lower: lowerBound, upper: upperBound) }
}

extension PartialRangeFrom: QueryRangeConvertible where Bound: IndexValue {
  public var queryRange: QueryRange<Bound> { QueryRange(lower: lowerBound, upper: nil) }
}

extension PartialRangeUpTo: QueryRangeConvertible where Bound: IndexValue {
  public var queryRange: QueryRange<Bound> {
    QueryRange(lower: nil, upper: upperBound, includesUpper: false)
  }
}

extension PartialRangeThrough: QueryRangeConvertible where Bound: IndexValue {
  public var queryRange: QueryRange<Bound> { QueryRange(lower: nil, upper: upperBound) }
}
