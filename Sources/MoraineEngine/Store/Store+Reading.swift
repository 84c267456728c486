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
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try reading { (engine) throws(StoreError) in try engine.value(bytes, keyspace: 0) } ?? nil
    }
  }

  /// Lends a value to the body; where it is stored as it is and the segment is mapped, no byte is
  /// copied. The bytes stay valid and unchanged until the body returns, whatever other processes do
  /// and whatever the body asks of the store.
  ///
  /// - Returns: what the body returns, or nil when the key is not there.
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(key + value), for the checksum.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) throws -> sending Result? {
    try checkOpen()
    return try withValue(forKey: key, keyspace: 0, body)
  }

  func withValue<Result>(
    forKey key: Key, keyspace: UInt16, _ body: (RawSpan) throws -> Result
  ) throws -> sending Result? {
    guard engine != nil else { return nil }
    let stored = try key.bytes.withBytes { (bytes) throws(StoreError) in
      try reading { (engine) throws(StoreError) in
        try engine.storedValue(bytes, keyspace: keyspace)
      } ?? nil
    }
    switch stored {
    case nil: return nil
    case .inPlace(let bytes, let mapping):
      defer { withExtendedLifetime(mapping) {} }
      return try body(bytes.bytes)
    case .copy(let value): return try body(value.span.bytes)
    }
  }

  /// Whether a key is there. Throws as ``value(forKey:)``.
  public func contains(_ key: Key) throws(StoreError) -> Bool {
    try checkOpen()
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try reading { (engine) throws(StoreError) in try engine.contains(bytes, keyspace: 0) }
        ?? false
    }
  }

  /// How many keys there are, in all keyspaces together. 0 when the store is closed or suspended;
  /// in a shared one whose news cannot be read, as many as were known: what throws says why.
  public var count: Int {
    tryToCatchUp()
    return engine?.index.count ?? 0
  }

  /// The last operation's number; as ``count`` where the store cannot be read.
  public var lastSequence: SequenceNumber {
    tryToCatchUp()
    return SequenceNumber(rawValue: engine?.lastSequence ?? 0)
  }

  /// Everything up to here survives a power failure.
  public nonisolated var durableSequence: SequenceNumber {
    SequenceNumber(rawValue: pipeline.durableSequence.load(ordering: .acquiring))
  }

  /// What opening found and did; nothing when the store is closed or suspended.
  public var recoveryReport: RecoveryReport { engine?.report ?? RecoveryReport() }

  /// Throws when nothing can be read, and takes in what other processes have written.
  func checkOpen() throws(StoreError) {
    try checkUsable()
    try catchUp()
  }

  func checkUsable() throws(StoreError) {
    if isClosed { throw closedError }
    if isSuspended { throw StoreError(.suspended, "the store is suspended; resume it first") }
  }
}
