import MoraineEngine

/// The place of a model in the order of a query: bytes whose order is that of the models.
///
/// The values that a query sorts by are encoded one after the other, as those of an index are; the
/// bits of values in descending order are inverted. So two models are compared by one comparison of
/// bytes, whatever the order is.
struct QueryPlace: Hashable, Sendable {
  /// The encoded values, then the key of the model's id.
  let bytes: [UInt8]
  let key: Key
  /// Whether the key is in descending order. Of two places one of which begins with the other, the
  /// shorter one then comes last; inverted bytes alone do not say that.
  let isDescending: Bool

  static func < (one: QueryPlace, other: QueryPlace) -> Bool {
    one.bytes.withUnsafeBytes { left in
      other.bytes.withUnsafeBytes { right in
        let order = compare(left, right)
        if order != 0 { return order < 0 }
        return one.isDescending ? left.count > right.count : left.count < right.count
      }
    }
  }

  private static func compare(
    _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer
  ) -> Int {
    let count = min(left.count, right.count)
    // Eight bytes at a time: most places differ in the first ones.
    var offset = 0
    while offset + 8 <= count {
      let one = UInt64(bigEndian: left.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      let other = UInt64(bigEndian: right.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      if one != other { return one < other ? -1 : 1 }
      offset += 8
    }
    while offset < count {
      if left[offset] != right[offset] { return left[offset] < right[offset] ? -1 : 1 }
      offset += 1
    }
    return 0
  }

  /// Returns the bytes by which an index orders entries with equal values.
  static func tie(_ key: [UInt8]) -> [UInt8] {
    key + [UInt8(truncatingIfNeeded: key.count)]
  }
}

/// The order of a query's models. Models that are equal in all sorted properties are in the order
/// of their ids' keys, in the direction of the last property.
struct QueryOrder<Model: Sendable>: Sendable {
  private let sorting: [QuerySorting<Model>]

  init(_ sorting: [QuerySorting<Model>]) { self.sorting = sorting }

  /// Returns the encoded values that a model is sorted by. A long text is cut as an index of one
  /// property cuts it: a query has the same order whether an index sorts it or not.
  func values(of model: Model) -> [[UInt8]] {
    sorting.map { sorting in
      var encoder = IndexEncoder(count: 1)
      encoder.appendProperty { sorting.encode(model, &$0) }
      return encoder.bytes
    }
  }

  func place(of model: Model, _ key: Key) -> QueryPlace { place(of: values(of: model), key) }

  /// - Parameter values: the encoded values that the model is sorted by.
  func place(of values: [[UInt8]], _ key: Key) -> QueryPlace {
    var bytes: [UInt8] = []
    for (value, sorting) in zip(values, sorting) {
      Self.append(value, in: sorting.order, to: &bytes)
    }
    let last = sorting.last?.order ?? .ascending
    Self.append(QueryPlace.tie(key.bytes), in: last, to: &bytes)
    return QueryPlace(bytes: bytes, key: key, isDescending: last == .descending)
  }

  private static func append(_ value: [UInt8], in order: KeyOrder, to bytes: inout [UInt8]) {
    switch order {
    case .ascending: bytes += value
    case .descending: for byte in value { bytes.append(~byte) }
    }
  }
}
