import MoraineFormat
import MoraineStorage
import Synchronization

/// What became of an operation: done, or to be tried again when there is room.
enum Outcome<Value> {
  case done(Value)
  case needsRoom(Int)
}

extension EngineState {
  /// Mutating, though it changes nothing: what only borrows the state copies it whole first.
  mutating func checkWritable() throws(StoreError) {
    if configuration.isReadOnly {
      throw StoreError(.readOnly, "the store was opened for reading only")
    }
    try checkProcess()
    if pipeline.isPoisoned.load(ordering: .relaxed), let poison = pipeline.poison { throw poison }
    guard lastSequence < SequenceNumber.max.rawValue - (1 << 32) else {
      throw StoreError(.valueTooLarge, "all sequence numbers are used up")
    }
  }

  @inline(__always)
  var isInItsProcess: Bool { Machine.forkGeneration == forkGeneration }

  /// Throws in a child of the process that opened the store: the log is the parent's, and so is the
  /// thread that syncs.
  @inline(__always)
  func checkProcess() throws(StoreError) {
    guard isInItsProcess else {
      throw StoreError(
        .usedAfterFork, "this process forked after opening the store; open it anew in the child")
    }
  }

  static func checkLimits(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
  ) throws(StoreError) {
    guard key.count <= Limits.keyLengthBytes else {
      throw StoreError(
        .keyTooLarge, "a key of \(key.count) bytes; the limit is \(Limits.keyLengthBytes)")
    }
    guard value.count <= Limits.valueLengthBytes else {
      throw StoreError(
        .valueTooLarge, "a value of \(value.count) bytes; the limit is \(Limits.valueLengthBytes)")
    }
  }

  /// - Parameter prepared: of an operation that is tried until there is room; nil for one attempt.
  @inline(__always)
  mutating func put(
    _ key: Key, _ value: [UInt8], keyspace: UInt16 = 0, _ prepared: PreparedValue? = nil
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try key.bytes.withBytes { (keyBytes) throws(StoreError) in
      try value.withBytes { (bytes) throws(StoreError) in
        try put(keyBytes, bytes, keyspace: keyspace, prepared)
      }
    }
  }

  /// Appends one put and makes it visible.
  ///
  /// - Parameter prepared: as ``put(_:_:keyspace:_:)``.
  mutating func put(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, keyspace: UInt16,
    _ prepared: PreparedValue? = nil
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    if value.count > PreparedValue.leastBytes {
      return try putLarge(key, value, keyspace: keyspace, prepared)
    }
    try checkWritable()
    try Self.checkLimits(key, value)
    let hash = hash(key, keyspace)
    // The bucket arrives while the value is being compressed.
    index.prefetch(hash)
    var draft = RecordDraft(sequence: lastSequence &+ 1, kind: .put, key: key, stored: value)
    draft.keyspace = keyspace
    if let compressed = compressor.compress(value) {
      draft.codec = .lz4
      draft.rawLength = value.count
      draft.stored = compressed
    }
    return try put(draft, hash: hash)
  }

  /// Appends a put of a value that is worth compressing only once.
  private mutating func putLarge(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, keyspace: UInt16,
    _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try checkWritable()
    try Self.checkLimits(key, value)
    // A single attempt compresses only where there is room whatever comes of it.
    let bound = Self.recordBound(keyLength: key.count, valueLength: value.count)
    guard prepared != nil || hasRoom(forPuts: bound) else { return .needsRoom(bound) }
    let hash = hash(key, keyspace)
    var draft = RecordDraft(sequence: lastSequence &+ 1, kind: .put, key: key, stored: value)
    draft.keyspace = keyspace
    defer { compressor.trim() }
    if prepared?.isCompressed != true { largeCompressionCount += 1 }
    if let compressed = prepared?.compressed(value)
      ?? (prepared == nil ? compressor.compress(value) : nil)
    {
      draft.codec = .lz4
      draft.rawLength = value.count
      draft.stored = compressed
    }
    defer { withExtendedLifetime(prepared) {} }
    return try put(draft, hash: hash)
  }

  /// The most that the record of a put takes, aligned.
  static func recordBound(keyLength: Int, valueLength: Int) -> Int {
    aligned(RecordHeader.fixedLength + 10 + keyLength + valueLength)
  }

  /// Appends a put as it is to be stored, and makes it visible.
  @inline(__always)
  private mutating func put(
    _ draft: RecordDraft, hash: UInt64
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    let (key, keyspace) = (draft.key, draft.keyspace)
    let length = draft.length
    guard hasRoom(forPuts: aligned(length)) else { return .needsRoom(aligned(length)) }
    try admitChange(hash)
    index.thaw(hash)
    let existing = try table.find(key, keyspace, hash: hash, in: index)
    // In positional mode the record lies in a buffer that the append will reuse: it was read.
    try appendSyncMarkIfDue()
    lastSequence &+= 1
    let address = try append(draft)
    install(
      put: address, length: length, sequence: lastSequence, hash: hash, keyspace: keyspace,
      over: existing?.replaceable)
    count(lastSequence, in: address.slot)
    publish()
    keyspaces.note(keyspace)
    return .done(SequenceNumber(rawValue: lastSequence))
  }

  /// Appends a delete, if the key is there.
  mutating func delete(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16 = 0
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try checkWritable()
    try Self.checkLimits(key, UnsafeRawBufferPointer(start: nil, count: 0))
    let hash = hash(key, keyspace)
    try admitChange(hash)
    index.thaw(hash)
    guard let existing = try table.find(key, keyspace, hash: hash, in: index) else {
      return .done(nil)
    }
    var draft = RecordDraft(
      sequence: lastSequence &+ 1, kind: .delete, key: key,
      stored: UnsafeRawBufferPointer(start: nil, count: 0))
    draft.keyspace = keyspace
    let length = draft.length
    guard hasRoom(for: aligned(length)) else { return .needsRoom(aligned(length)) }
    try appendSyncMarkIfDue()
    lastSequence &+= 1
    let address = try append(draft)
    uninstall(existing.replaceable, hash: hash, keyspace: keyspace)
    count(lastSequence, in: address.slot)
    table[address.slot].deleteBytes &+= UInt64(truncatingIfNeeded: aligned(length))
    publish()
    keyspaces.note(keyspace)
    return .done(SequenceNumber(rawValue: lastSequence))
  }
}
