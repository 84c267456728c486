public import MoraineFormat
import Synchronization

extension Store {
  /// The value of a key, or nil when the key is not there.
  ///
  /// - Throws: `.corrupted` with file and offset when the bytes are not what was written, `.io`,
  ///   `.closed`. Damage is never answered with nil.
  /// - Complexity: O(key + value).
  public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
    try checkOpen()
    return try key.bytes.withBytes { (bytes) throws(StoreError) in try engine?.value(bytes) ?? nil }
  }

  /// Lends a value to the body without copying it, where it is stored as it is.
  public func withValue<Result>(
    forKey key: Key, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    guard let value = try value(forKey: key) else { return nil }
    return try body(value.span.bytes)
  }

  /// Whether a key is there. Throws as ``value(forKey:)``.
  public func contains(_ key: Key) throws(StoreError) -> Bool {
    try checkOpen()
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      guard let hash = engine?.hash(bytes, 0) else { return false }
      return try engine?.find(bytes, 0, hash: hash) != nil
    }
  }

  /// How many keys there are.
  public var count: Int { engine?.index.count ?? 0 }

  /// The last operation's number.
  public var lastSequence: SequenceNumber {
    SequenceNumber(rawValue: engine?.lastSequence ?? 0)
  }

  /// Everything up to here survives a power failure.
  public nonisolated var durableSequence: SequenceNumber {
    SequenceNumber(rawValue: pipeline.durableSequence.load(ordering: .acquiring))
  }

  /// What opening found and did.
  public var recoveryReport: RecoveryReport { engine?.report ?? RecoveryReport() }

  func checkOpen() throws(StoreError) {
    if isClosed { throw StoreError(.closed, "the store was closed; open it again") }
  }
}
