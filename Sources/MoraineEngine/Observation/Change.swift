public import MoraineFormat

/// One put or delete, as the log has it.
public struct Change: Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public let keyspace: String
  /// The key, within its keyspace.
  public let key: Key
  /// What was stored; nil when the key was removed.
  public let value: [UInt8]?
  /// Of the put or the delete: they rise, with gaps.
  public let sequence: SequenceNumber
  /// To go on behind this change, in ``Store/changes(since:)``.
  public let cursor: ChangeCursor

  /// Whether the key was removed.
  public var isRemoval: Bool { value == nil }
}
