/// A range of keys, in the order of their bytes. Swift's ranges of keys are key ranges too:
/// `"a"..<"b"`, `"a"..."b"`, `"a"...`, `..<"b"`, `..."b"`.
public struct KeyRange: Hashable, Sendable {
  /// The least key of the range; nil when the range begins with the first key.
  public let lowerBound: Key?
  /// The least key after the range; nil when the range ends with the last key.
  public let upperBound: Key?

  /// Creates the range of the keys from a lower bound up to, and without, an upper bound.
  public init(from lowerBound: Key? = nil, upTo upperBound: Key? = nil) {
    self.lowerBound = lowerBound
    self.upperBound = upperBound
  }

  /// Whether a key is in the range.
  public func contains(_ key: Key) -> Bool {
    (lowerBound.map { $0 <= key } ?? true) && (upperBound.map { key < $0 } ?? true)
  }

  /// Returns the keys that are in both ranges.
  public func intersection(_ other: KeyRange) -> KeyRange {
    let lower = [lowerBound, other.lowerBound].compactMap { $0 }.max()
    let upper = [upperBound, other.upperBound].compactMap { $0 }.min()
    return KeyRange(from: lower, upTo: upper)
  }
}

/// A type that stands for a range of keys.
public protocol KeyRangeConvertible {
  /// The keys.
  var keyRange: KeyRange { get }
}

extension KeyRange: KeyRangeConvertible {
  public var keyRange: KeyRange { self }
}

extension KeyRangeConvertible where Self == KeyRange {
  /// All keys.
  public static var all: KeyRange { KeyRange() }

  /// The keys that begin with these bytes.
  public static func prefix(_ prefix: Key) -> KeyRange {
    KeyRange(from: prefix, upTo: prefix.afterPrefix)
  }
}

extension Key {
  /// The least key that is greater than every key that begins with this one; nil when there is
  /// none.
  fileprivate var afterPrefix: Key? {
    guard let last = bytes.lastIndex(where: { $0 != 0xFF }) else { return nil }
    return Key(bytes[..<last] + [bytes[last] + 1])
  }

  /// The least key that is greater than this one.
  var successor: Key { Key(bytes + [0]) }
}

extension Range: KeyRangeConvertible where Bound == Key {
  public var keyRange: KeyRange { KeyRange(from: lowerBound, upTo: upperBound) }
}

extension ClosedRange: KeyRangeConvertible where Bound == Key {
  public var keyRange: KeyRange { KeyRange(from: lowerBound, upTo: upperBound.successor) }
}

extension PartialRangeFrom: KeyRangeConvertible where Bound == Key {
  public var keyRange: KeyRange { KeyRange(from: lowerBound) }
}

extension PartialRangeUpTo: KeyRangeConvertible where Bound == Key {
  public var keyRange: KeyRange { KeyRange(upTo: upperBound) }
}

extension PartialRangeThrough: KeyRangeConvertible where Bound == Key {
  public var keyRange: KeyRange { KeyRange(upTo: upperBound.successor) }
}

/// The direction of a walk over the keys of an ordered keyspace.
public enum KeyOrder: Hashable, Sendable, Codable {
  /// From the least key to the greatest.
  case ascending
  /// From the greatest key to the least.
  case descending
}

/// A part of the entries of a range, and how to read the next part.
public struct EntryPage: Sendable {
  /// The entries, in the order that was asked for.
  public internal(set) var entries: [Store.Entry]
  /// The place after the last entry; nil when the range has no further entry.
  public internal(set) var next: PageToken? = nil
}

/// A place in a range of an ordered keyspace, at which a later call continues.
///
/// The token names the last key that was read, so entries that are inserted or removed elsewhere do
/// not move it. It can be stored, and given to another process.
public struct PageToken: Hashable, Sendable, Codable {
  /// The name of the keyspace.
  public let keyspace: String
  let lowerBound: [UInt8]?
  let upperBound: [UInt8]?
  let order: KeyOrder

  init(_ keyspace: String, _ rest: KeyRange, _ order: KeyOrder) {
    self.keyspace = keyspace
    lowerBound = rest.lowerBound?.bytes
    upperBound = rest.upperBound?.bytes
    self.order = order
  }

  /// The keys that were not read yet.
  var rest: KeyRange {
    KeyRange(from: lowerBound.map { Key($0) }, upTo: upperBound.map { Key($0) })
  }
}
