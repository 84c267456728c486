public import MoraineFormat
import Synchronization

extension Store {
  /// The value of a key, or nil when the key is not there.
  ///
  /// - Throws: `.corrupted` with file and offset when the bytes are not what was written, `.io`,
  ///   `.closed`. Damage is never answered with nil.
  /// - Complexity: O(key + value).
  @inlinable
  public func value(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    // Compiled into the caller: a call that cannot wait costs no frame of its own.
    if isAlone { return try ownValue(forKey: key) }
    return try await sharedValue(forKey: key)
  }

  @usableFromInline
  func ownValue(forKey key: Key) throws(StoreError) -> [UInt8]? {
    try checkUsable()
    return try ownValue(forKey: key, keyspace: 0)
  }

  @usableFromInline
  func sharedValue(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    try await checkOpen()
    return try await value(forKey: key, keyspace: 0)
  }

  @inline(__always)
  func ownValue(forKey key: Key, keyspace: UInt16) throws(StoreError) -> [UInt8]? {
    guard engine != nil else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.value(bytes, keyspace: keyspace)
    }
  }

  @inline(__always)
  func ownContains(_ key: Key, keyspace: UInt16) throws(StoreError) -> Bool {
    guard engine != nil else { return false }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.contains(bytes, keyspace: keyspace)
    }
  }

  func value(forKey key: Key, keyspace: UInt16) async throws(StoreError) -> [UInt8]? {
    try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.value(bytes, keyspace: keyspace)
      }
    } ?? nil
  }

  /// Lends a value to the body; where it is stored as it is and the segment is mapped, no byte is
  /// copied. The bytes stay valid and unchanged until the body returns, whatever other processes
  /// do.
  ///
  /// - Returns: what the body returns, or nil when the key is not there.
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(key + value), for the checksum.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await checkOpen()
    return try await withValue(forKey: key, keyspace: 0, body)
  }

  func withValue<Result>(
    forKey key: Key, keyspace: UInt16, _ body: (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    let stored =
      try await reading { (engine) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try engine.storedValue(bytes, keyspace: keyspace)
        }
      } ?? nil
    switch stored {
    case nil: return nil
    case .inPlace(let bytes, let mapping):
      defer { withExtendedLifetime(mapping) {} }
      return try body(bytes.bytes)
    case .copy(let value): return try body(value.span.bytes)
    }
  }

  /// Whether a key is there. Throws as ``value(forKey:)``.
  @inlinable
  public func contains(_ key: Key) async throws(StoreError) -> Bool {
    if isAlone { return try ownContains(key) }
    return try await sharedContains(key)
  }

  @usableFromInline
  func ownContains(_ key: Key) throws(StoreError) -> Bool {
    try checkUsable()
    return try ownContains(key, keyspace: 0)
  }

  @usableFromInline
  func sharedContains(_ key: Key) async throws(StoreError) -> Bool {
    try await checkOpen()
    return try await contains(key, keyspace: 0)
  }

  func contains(_ key: Key, keyspace: UInt16) async throws(StoreError) -> Bool {
    try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.contains(bytes, keyspace: keyspace)
      }
    } ?? false
  }

  /// How many keys there are, in all keyspaces together. 0 when the store is closed or suspended;
  /// in a shared one whose news cannot be read, as many as were known: what throws says why.
  public var count: Int {
    get async {
      await tryToCatchUp()
      return engine?.index.count ?? 0
    }
  }

  /// The last operation's number; as ``count`` where the store cannot be read.
  public var lastSequence: SequenceNumber {
    get async {
      await tryToCatchUp()
      return SequenceNumber(rawValue: engine?.lastSequence ?? 0)
    }
  }

  /// Everything up to here survives a power failure.
  public nonisolated var durableSequence: SequenceNumber {
    SequenceNumber(rawValue: pipeline.durableSequence.load(ordering: .acquiring))
  }

  /// What opening found and did; nothing when the store is closed or suspended.
  public var recoveryReport: RecoveryReport { engine?.report ?? RecoveryReport() }

  /// Throws when nothing can be read, and takes in what other processes have written.
  @inline(__always)
  func checkOpen() async throws(StoreError) {
    try checkUsable()
    guard isShared else { return }
    try await catchUp()
    // It may have been closed since.
    try checkUsable()
  }

  func checkUsable() throws(StoreError) {
    if isClosed { throw closedError }
    if isSuspended { throw StoreError(.suspended, "the store is suspended; resume it first") }
  }
}
