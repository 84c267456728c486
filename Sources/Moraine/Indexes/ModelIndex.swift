import MoraineEngine

/// An index of a repository: it finds models by other values than their ids.
///
/// ```swift
/// let users = try LocalRepository<User>(
///   in: store, named: "users",
///   indexes: [
///     .unique("email", on: \.email),
///     .index("city, name", on: \.city, \.name),
///     .index("tags", onEach: \.tags),
///     .index("active", on: \.lastSeen, where: \.isActive),
///   ])
/// ```
///
/// The name identifies the index in the store; the key paths cannot be stored. An index that is
/// added to a repository with models is built in the background. **Give an index another name when
/// its property, its condition or the encoding of its values changes**: the store cannot see that.
///
/// Text and data are in an index with about their first 290 bytes: 290 for an index of one value,
/// 140 for each of two, 90 for each of three. Where a query meets a longer one in the order of an
/// index of several values, it sorts its models in memory.
public struct ModelIndex<Model: Sendable>: Sendable {
  /// The name of the index in the store.
  public let name: String
  /// Whether no two models may have the same values. Models with a nil value, or with a value
  /// of which a part is nil, are exempt.
  public let isUnique: Bool
  /// The properties of the model, in the order in which the index sorts.
  let paths: [any PartialKeyPath<Model> & Sendable]
  /// Whether a model may have several entries.
  let isManyValued: Bool
  /// Whether the index has only models that fulfil a condition.
  let isPartial: Bool
  /// The condition of a partial index.
  let includes: @Sendable (Model) -> Bool
  private let types: String
  private let encodings: @Sendable (Model) -> [IndexEncoder]
  private var isStable = false

  /// Declares an index of one property.
  ///
  /// - Parameters:
  ///   - name: the name of the index, up to 255 bytes.
  ///   - path: the property.
  ///   - condition: which models the index has; nil for all.
  public static func index<Value: IndexValue>(
    _ name: String, on path: any KeyPath<Model, Value> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex {
    ModelIndex(name, isUnique: false, [path], condition, "\(Value.self)") { model in
      [encoding(model[keyPath: path])]
    }
  }

  /// Declares an index of two properties: models are in the order of the first one, and those with
  /// the same first value in the order of the second one.
  public static func index<First: IndexValue, Second: IndexValue>(
    _ name: String, on first: any KeyPath<Model, First> & Sendable,
    _ second: any KeyPath<Model, Second> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex {
    ModelIndex(
      name, isUnique: false, [first, second], condition, "\(First.self),\(Second.self)"
    ) { model in
      [encoding(model[keyPath: first], model[keyPath: second])]
    }
  }

  /// Declares an index of three properties.
  public static func index<First: IndexValue, Second: IndexValue, Third: IndexValue>(
    _ name: String, on first: any KeyPath<Model, First> & Sendable,
    _ second: any KeyPath<Model, Second> & Sendable, _ third: any KeyPath<Model, Third> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex {
    ModelIndex(
      name, isUnique: false, [first, second, third], condition,
      "\(First.self),\(Second.self),\(Third.self)"
    ) { model in
      [encoding(model[keyPath: first], model[keyPath: second], model[keyPath: third])]
    }
  }

  /// Declares an index of a property with many values: a model is found by each of them.
  public static func index<Values: Sequence & SendableMetatype>(
    _ name: String, onEach path: any KeyPath<Model, Values> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex where Values.Element: IndexValue {
    ModelIndex(
      name, isUnique: false, [path], condition, "each \(Values.Element.self)", isManyValued: true
    ) { model in
      model[keyPath: path].map { encoding($0) }
    }
  }

  /// Declares a unique index of one property: saving a second model with the same value throws
  /// `.notUnique` and writes nothing.
  ///
  /// - Parameters:
  ///   - name: the name of the index, up to 255 bytes.
  ///   - path: the property. A text may have up to 290 bytes; saving a model with a longer one
  ///     throws `.keyTooLarge`.
  ///   - condition: which models the index has; nil for all.
  public static func unique<Value: IndexValue>(
    _ name: String, on path: any KeyPath<Model, Value> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex {
    ModelIndex(name, isUnique: true, [path], condition, "\(Value.self)") { model in
      [encoding(model[keyPath: path])]
    }
  }

  /// Declares a unique index of two properties: no two models may have both values in common.
  public static func unique<First: IndexValue, Second: IndexValue>(
    _ name: String, on first: any KeyPath<Model, First> & Sendable,
    _ second: any KeyPath<Model, Second> & Sendable,
    where condition: (@Sendable (Model) -> Bool)? = nil
  ) -> ModelIndex {
    ModelIndex(
      name, isUnique: true, [first, second], condition, "\(First.self),\(Second.self)"
    ) { model in
      [encoding(model[keyPath: first], model[keyPath: second])]
    }
  }

  /// Returns this index for a model whose later versions have the same values in it. Otherwise the
  /// index is built again when ``ModelFormat/version`` rises.
  public func stableAcrossVersions() -> ModelIndex {
    var index = self
    index.isStable = true
    return index
  }

  private init(
    _ name: String, isUnique: Bool, _ paths: [any PartialKeyPath<Model> & Sendable],
    _ condition: (@Sendable (Model) -> Bool)?, _ types: String, isManyValued: Bool = false,
    _ encodings: @escaping @Sendable (Model) -> [IndexEncoder]
  ) {
    precondition(name.utf8.count <= 255, "the name of an index has up to 255 bytes")
    self.name = name
    self.isUnique = isUnique
    self.paths = paths
    self.types = types
    self.isManyValued = isManyValued
    self.encodings = encodings
    isPartial = condition != nil
    includes = condition ?? { _ in true }
  }

  private static func encoding<each Value: IndexValue>(_ values: repeat each Value) -> IndexEncoder
  {
    var count = 0
    for _ in repeat (each Value).self { count += 1 }
    var encoder = IndexEncoder(count: count)
    repeat encoder.appendProperty(each values)
    return encoder
  }
}

extension ModelIndex {
  /// Returns the version of the models that the definition depends on; 0 for none.
  func definedVersion(_ version: Int) -> UInt32 { isStable ? 0 : UInt32(clamping: version) }

  /// Returns the number of the index: another definition has another number.
  func number(_ version: Int) -> UInt64 {
    let text =
      "\(name)\u{0}\(types)\u{0}\(isUnique)\u{0}\(isPartial)\u{0}\(definedVersion(version))"
    // FNV-1a (Fowler, Noll, Vo; draft-eastlake-fnv). It must never change: the number is stored.
    return text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }

  /// Whether a model is in the index.
  func hasEntries(for model: Model) -> Bool {
    includes(model) && (!isManyValued || !encodings(model).isEmpty)
  }

  /// Whether the index has only the beginning of a text or data of a model.
  func cuts(_ model: Model) -> Bool { encodings(model).contains { $0.isCut } }

  /// Returns the values of a model in this index, each once; none for a model that a partial index
  /// lacks.
  ///
  /// - Throws: `.keyTooLarge` for a text that is too long for a unique index.
  func values(of model: Model) throws(StoreError) -> [IndexRow.Value] {
    guard includes(model) else { return [] }
    var values: [IndexRow.Value] = []
    for encoder in encodings(model) {
      if isUnique, encoder.isCut {
        throw StoreError(
          .keyTooLarge,
          "a value for the unique index '\(name)' is too long: text and data can have about "
            + "\(IndexLayout.valueLengthBytes / paths.count) bytes")
      }
      guard encoder.bytes.count <= IndexLayout.valueLengthBytes else {
        throw StoreError(
          .keyTooLarge,
          "the values for the index '\(name)' take \(encoder.bytes.count) bytes; "
            + "the limit is \(IndexLayout.valueLengthBytes)")
      }
      values.append(
        IndexRow.Value(encoder.bytes, isUnique: isUnique && !encoder.hasAbsent))
    }
    guard isManyValued else { return values }
    // The same model must have the same row in each process, also when the values are a set.
    return Set(values).sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
  }
}
