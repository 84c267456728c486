public import MoraineFormat

/// One put or delete, as the log has it.
public struct Change: Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public let keyspace: String
  public let key: Key
  /// What was stored; nil when the key was removed.
  public let value: [UInt8]?
  public let sequence: SequenceNumber
  /// To go on behind this change, in ``Store/changes(since:)``.
  public let cursor: ChangeCursor

  public var isRemoval: Bool { value == nil }
}
