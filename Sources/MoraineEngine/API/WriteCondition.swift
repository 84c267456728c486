public import MoraineFormat

/// A condition on the present value of a key, under which a write takes place: compare and set.
public enum WriteCondition: Hashable, Sendable {
  /// The key does not exist.
  case absent
  /// The key exists, and this operation has set its value: see ``VersionedValue/sequence``. The
  /// number stays the same when a compaction moves the value.
  case sequence(SequenceNumber)
  /// The key exists, and has this value.
  case value([UInt8])
}

/// A value, and the operation that has set it.
public struct VersionedValue: Hashable, Sendable {
  /// The value.
  public let value: [UInt8]
  /// The number of the operation, for ``WriteCondition/sequence(_:)``.
  public let sequence: SequenceNumber
  /// The time at which the entry ends: ``Expiry/never``, or a time in milliseconds.
  public let expiry: Expiry

  init(value: [UInt8], sequence: SequenceNumber, expiryMilliseconds: UInt64?) {
    (self.value, self.sequence) = (value, sequence)
    expiry = expiryMilliseconds.map { .at(milliseconds: $0) } ?? .never
  }
}
