import MoraineFormat
import MoraineStorage
import Synchronization

/// The whole state of an open store. The actor owns it, or the code that opens the store.
struct EngineState: ~Copyable {
  var log: Log
  var live: LiveIndex
  let configuration: Store.Configuration
  let directory: any StorageDirectory
  /// Nonce and version of the link's page when it was read. Another nonce means that the page was
  /// made again. The version is 0 where the page was made for this state.
  var followed: (nonce: UInt64, version: UInt64) = (0, 0)
  /// Whether other processes had the store open, and the committing thread does not know it yet.
  var hasJoined = false
  /// Whether applying the records of other processes has failed half-way. Then everything must be
  /// read again.
  var isFollowedInPart = false
  /// The error of the last replay that failed: the reason while ``isFollowedInPart`` is set.
  var replayFailure: StoreError?
  let pipeline: CommitPipeline
  var compressor = Compressor()
  /// Number of times that a value of the size for ``PreparedValue`` was compressed; for tests.
  var largeCompressionCount = 0
  var keyspaces: KeyspaceTable
  /// The records that the readers of a frozen index need besides.
  var recent = RecentWriter()
  let observers: Observers
  var report = RecoveryReport()
  /// Names of the checkpoints that existed when the store was opened.
  var checkpointNames: [String] = []
  let forkGeneration: UInt64
  /// Number of live keys that the tree of their keyspace cannot hold; see ``checkStrayKeys()``.
  var strayKeyCount = 0
  /// Number of times that the index was built again from the log.
  var rebuildCount = 0
  /// Whether writes are refused: the store was opened for reading only, or follows an archive.
  var refusesWrites: Bool

  init(
    directory: any StorageDirectory, lock: (any StorageFile)?, manifest: Manifest,
    configuration: Store.Configuration, pipeline: CommitPipeline, observers: Observers
  ) throws(StoreError) {
    live = try LiveIndex(ordered: OrderedKeyspaces(manifest.ordered))
    log = Log(
      directory: directory, lock: lock, manifest: manifest, configuration: configuration,
      pipeline: pipeline)
    keyspaces = KeyspaceTable(manifest.keyspaces, observers)
    self.observers = observers
    self.directory = directory
    self.configuration = configuration
    self.pipeline = pipeline
    refusesWrites = configuration.isReadOnly || manifest.following != nil
    pipeline.isFollowing.store(manifest.following != nil, ordering: .relaxed)
    forkGeneration = CurrentProcess.forkGeneration
    observers.phase.setDirectory(directory)
  }

  /// The time by which records expire, in milliseconds since 1970.
  var now: UInt64 { observers.clock.now() }

  @inline(__always)
  func hash(_ key: UnsafeRawBufferPointer, _ keyspace: UInt16) -> UInt64 {
    KeyHash.hash(key, keyspace: keyspace, with: log.manifest.hashKey)
  }
}

extension EngineState {
  /// Watches the directory: from now on nothing is written unless the names in the directory lead
  /// to this store's files.
  ///
  /// - Parameter link: the link to the other processes that have the store open.
  func watchOver(_ link: SharedLink?) {
    if configuration.isReadOnly { return }
    pipeline.watchOver(
      StorePresence(
        directory, common: (log.lock.map { [$0] } ?? []) + (link?.files ?? []),
        manifest: log.manifest,
        isShared: configuration.sharing == .shared))
  }

  func directoryHandle() -> any StorageDirectory { directory }
}

// Calls of the log that need the figures of the live records.
extension EngineState {
  /// Returns the manifest of the present state: see ``Log/nextManifest(sealing:digest:)``.
  func nextManifest(
    sealing: (segment: ActiveSegment, markedOffset: Int)? = nil
  ) -> Manifest {
    log.nextManifest(sealing: sealing, digest: live.digest)
  }

  /// Writes the footer of the active segment, which then accepts no more records.
  mutating func appendFooter() throws(StoreError) { try log.appendFooter(live.digest) }

  /// Returns the job that creates the next segment: see
  /// ``Log/nextSegmentCreation(for:liveBytes:isAhead:)``.
  mutating func nextSegmentCreation(for count: Int, isAhead: Bool = false) -> SegmentCreation {
    log.nextSegmentCreation(for: count, liveBytes: live.bytes, isAhead: isAhead)
  }

  /// Segment size that fits the store: see ``Log/fittingSegmentBytes(liveBytes:)``.
  var fittingSegmentBytes: Int { Log.fittingSegmentBytes(liveBytes: live.bytes) }
}

/// The result of an attempt: done, or to be repeated when there is room.
enum Outcome<Value> {
  case done(Value)
  case needsRoom(Int)

  /// The outcome for an attempt that may also do nothing.
  var optional: Outcome<Value?> {
    switch self {
    case .done(let value): .done(value)
    case .needsRoom(let count): .needsRoom(count)
    }
  }
}

extension EngineState {
  /// Mutating, although it changes nothing: a function that only borrows the state copies all of
  /// it.
  mutating func checkWritable() throws(StoreError) {
    if refusesWrites { throw Self.refusal(configuration) }
    try checkState()
  }

  /// The error of a write to a store that refuses writes.
  static func refusal(_ configuration: Store.Configuration) -> StoreError {
    configuration.isReadOnly
      ? StoreError(.readOnly, "the store was opened for reading only")
      : StoreError(.readOnly, "the store follows an archive; promote it to write to it")
  }

  /// Throws when nothing can be written, also not by compaction, which a follower may do.
  mutating func checkChangeable() throws(StoreError) {
    if configuration.isReadOnly { throw Self.refusal(configuration) }
    try checkState()
  }

  @inline(__always)
  private mutating func checkState() throws(StoreError) {
    try checkProcess()
    if pipeline.isPoisoned.load(ordering: .relaxed), let poison = pipeline.poison { throw poison }
    guard log.lastSequence < SequenceNumber.max.rawValue - (1 << 32) else {
      throw StoreError(.limitExceeded, "all sequence numbers are used up")
    }
  }

  @inline(__always)
  var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  /// Throws in a forked child of the process that opened the store: the log and the thread that
  /// syncs belong to the parent.
  @inline(__always)
  func checkProcess() throws(StoreError) {
    guard isInItsProcess else { throw .usedAfterFork }
  }

  static func checkLimits(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
  ) throws(StoreError) {
    guard key.count <= StoreLimits.keyLengthBytes else {
      throw StoreError(
        .keyTooLarge, "the key has \(key.count) bytes; the limit is \(StoreLimits.keyLengthBytes)")
    }
    guard value.count <= StoreLimits.valueLengthBytes else {
      throw StoreError(
        .valueTooLarge,
        "the value has \(value.count) bytes; the limit is \(StoreLimits.valueLengthBytes)")
    }
  }

  /// - Parameter prepared: the value of an operation that is repeated until there is room; nil for
  ///   one attempt.
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
  /// - Parameter prepared: see ``put(_:_:keyspace:_:)``.
  mutating func put(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, keyspace: UInt16,
    _ prepared: PreparedValue? = nil
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    if value.count > PreparedValue.sharedBufferLimit {
      return try putLarge(key, value, keyspace: keyspace, prepared)
    }
    try checkWritable()
    try Self.checkLimits(key, value)
    let hash = hash(key, keyspace)
    // The bucket arrives while the value is compressed.
    live.index.prefetch(hash)
    let draft = RecordDraft(
      sequence: log.lastSequence &+ 1, kind: .put, keyspace: keyspace, key: key, value: value,
      compressed: compressor.compress(value))
    return try put(draft, hash: hash)
  }

  mutating func put(
    _ key: Key, _ value: [UInt8], keyspace: UInt16, expiry: UInt64, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try key.bytes.withBytes { (keyBytes) throws(StoreError) in
      try value.withBytes { (bytes) throws(StoreError) in
        try put(keyBytes, bytes, keyspace: keyspace, expiry: expiry, prepared)
      }
    }
  }

  /// Appends one put that expires, as ``put(_:_:keyspace:_:)`` does for the others.
  ///
  /// - Parameter expiry: milliseconds since 1970; 0 for a record that does not expire.
  mutating func put(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, keyspace: UInt16,
    expiry: UInt64, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    if value.count > PreparedValue.sharedBufferLimit {
      return try putLarge(key, value, keyspace: keyspace, expiry: expiry, prepared)
    }
    try checkWritable()
    try Self.checkLimits(key, value)
    var draft = RecordDraft(
      sequence: log.lastSequence &+ 1, kind: .put, keyspace: keyspace, key: key, value: value,
      compressed: compressor.compress(value))
    draft.expiryMilliseconds = expiry
    return try put(draft, hash: hash(key, keyspace))
  }

  /// Appends a put whose value is large, and therefore compressed only once.
  private mutating func putLarge(
    _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, keyspace: UInt16,
    expiry: UInt64 = 0, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    try checkWritable()
    try Self.checkLimits(key, value)
    // A single attempt compresses only where the record fits, whatever the result of the
    // compression.
    let bound = Self.recordBound(keyLength: key.count, valueLength: value.count)
    guard prepared != nil || log.hasRoom(forPuts: bound) else { return .needsRoom(bound) }
    let hash = hash(key, keyspace)
    defer { compressor.trim() }
    if prepared?.isCompressed != true { largeCompressionCount += 1 }
    let compressed =
      prepared?.compressed(value) ?? (prepared == nil ? compressor.compress(value) : nil)
    defer { withExtendedLifetime(prepared) {} }
    var draft = RecordDraft(
      sequence: log.lastSequence &+ 1, kind: .put, keyspace: keyspace, key: key, value: value,
      compressed: compressed)
    draft.expiryMilliseconds = expiry
    return try put(draft, hash: hash)
  }

  /// Returns the largest size of a put's record, aligned.
  static func recordBound(keyLength: Int, valueLength: Int) -> Int {
    aligned(RecordHeader.fixedLength + 18 + keyLength + valueLength)
  }

  /// Validates the loaded pages of the index that an operation on a hash uses, and copies a few
  /// pages back to their original memory. Pointers to entries are no longer valid.
  @inline(__always)
  mutating func validatePages(_ hash: UInt64) throws(StoreError) {
    if live.index.needsCare { try tendAndValidate(hash) }
  }

  /// Validates the pages that a key needs, as ``validatePages(_:)`` does, and takes the memory that
  /// a change of the index may need.
  @inline(__always)
  mutating func validateForChange(_ hash: UInt64) throws(StoreError) {
    if live.index.needsCare { try tendAndSecure(hash) }
  }

  private mutating func tendAndSecure(_ hash: UInt64) throws(StoreError) {
    try tendAndValidate(hash)
    try live.index.secureChange()
  }

  private mutating func tendAndValidate(_ hash: UInt64) throws(StoreError) {
    if live.index.hasUnvalidatedPages, !live.index.validatePages(hash) {
      try replaceDamagedIndex()
    }
    live.index.tend()
  }

  /// Appends a put in its stored form, and makes it visible.
  @inline(__always)
  private mutating func put(
    _ draft: RecordDraft, hash: UInt64
  ) throws(StoreError) -> Outcome<SequenceNumber> {
    let (key, keyspace) = (draft.key, draft.keyspace)
    let length = draft.length
    guard log.hasRoom(forPuts: aligned(length)) else { return .needsRoom(aligned(length)) }
    if live.trees.isOrdered(keyspace) { return .done(try putOrdered(draft, hash: hash)) }
    try validateForChange(hash)
    live.index.makeUnique(hash)
    let existing = try log.table.find(key, keyspace, hash: hash, in: live.index)
    return .done(try append(draft, hash: hash, over: existing?.replaceable))
  }

  /// Appends a record after which no other record of its unit comes, and makes it visible.
  // As for `Log.append`: `@inline(__always)` leaves a call, and 90 instructions of a put.
  @_transparent
  private mutating func append(
    _ draft: RecordDraft, hash: UInt64, over existing: ReplaceableEntry?
  ) throws(StoreError) -> SequenceNumber {
    assert(draft.sequence == log.lastSequence &+ 1, "a record with a number out of order")
    // In positional mode the existing record lies in a buffer that the append reuses. Its fields
    // were read already.
    try log.appendSyncMarkIfDue(live.digest)
    // From here on the number is used up, even if the append fails.
    log.lastSequence &+= 1
    let address = try log.append(draft)
    apply(
      draft.kind.effect, at: address, length: draft.length, sequence: log.lastSequence,
      hash: hash, keyspace: draft.keyspace, over: existing)
    if draft.expiryMilliseconds != 0 {
      log.table.addExpiry(draft.expiryMilliseconds, at: address)
    }
    publishRecent(draft.key, draft.keyspace, hash, address, length: draft.length)
    log.publish()
    keyspaces.recordCommit(draft.keyspace)
    return SequenceNumber(rawValue: log.lastSequence)
  }

  /// Makes a record visible that is in the log.
  @inline(__always)
  mutating func apply(
    _ effect: RecordKind.Effect, at address: Address, length: Int, sequence: UInt64, hash: UInt64,
    keyspace: UInt16, over existing: ReplaceableEntry?
  ) {
    log.countRecord(sequence, effect, length: length, in: address.slot)
    live.apply(
      effect, at: address, length: length, sequence: sequence, hash: hash, keyspace: keyspace,
      over: existing, in: log.table)
  }

  /// Appends a delete, if the key exists.
  ///
  /// - Parameter evenExpired: whether a record that has expired counts as existing.
  mutating func delete(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16 = 0, evenExpired: Bool = true
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try checkWritable()
    try Self.checkLimits(key, UnsafeRawBufferPointer(start: nil, count: 0))
    if live.trees.isOrdered(keyspace) {
      return try deleteOrdered(key, keyspace, evenExpired: evenExpired)
    }
    let hash = hash(key, keyspace)
    try validateForChange(hash)
    live.index.makeUnique(hash)
    guard let existing = try log.table.find(key, keyspace, hash: hash, in: live.index) else {
      return .done(nil)
    }
    if !evenExpired, log.table.isHiddenAndIntact(existing.record, at: existing.address, now) {
      return .done(nil)
    }
    let none = UnsafeRawBufferPointer(start: nil, count: 0)
    let draft = RecordDraft(
      sequence: log.lastSequence &+ 1, kind: .delete, keyspace: keyspace, key: key, value: none,
      compressed: nil)
    let length = aligned(draft.length)
    guard log.hasRoom(for: length) else { return .needsRoom(length) }
    return .done(try append(draft, hash: hash, over: existing.replaceable))
  }
}

extension EngineState {
  /// Appends all operations as one atomic unit and makes them visible together.
  ///
  /// - Parameters:
  ///   - isDelete: whether the batch frees space and needs hardly any.
  ///   - prepared: the value of a batch of one large value, which all attempts share; nil for other
  ///     batches.
  /// - Returns: the last sequence number; nil when there was nothing to do.
  /// - Complexity: O(bytes). Each key is looked up twice in the index: every step that may fail
  ///   must have failed before the first byte is written. The first look-up fetches the data that
  ///   the second one needs.
  mutating func commit(
    _ batch: BatchOperations, isDelete: Bool, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try batch.withPieces { (batch) throws(StoreError) in
      precondition(batch.count > 0, "a batch has no operation")
      if batch.count == 1 { return try commitAlone(batch, prepared) }
      return try commitTogether(batch, isDelete: isDelete)
    }
  }

  /// Number of operations up to which a batch needs no more memory than is always taken ahead.
  private static let largeBatch = HashIndex.securedInsertions

  private mutating func commitTogether(
    _ batch: BatchPieces, isDelete: Bool
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    try checkWritable()
    let total = batch.operations.reduce(0) { $0 &+ Self.recordBound($1) }
    guard total <= StoreLimits.batchLengthBytes else {
      throw StoreError(
        .valueTooLarge,
        "the batch has \(total) bytes; the limit is \(StoreLimits.batchLengthBytes), so split it")
    }
    guard isDelete ? log.hasRoom(for: total) : log.hasRoom(forPuts: total) else {
      return .needsRoom(total)
    }
    let hashes = hashesFetchingBuckets(batch)
    if batch.operations.contains(where: { live.trees.isOrdered($0.keyspace) }) {
      return .done(try commitOrdered(batch, hashes))
    }
    let older = try replacedRecords(batch, hashes)
    // Many insertions may need more memory than one.
    if live.index.needsCare || batch.count > Self.largeBatch {
      try live.index.secure(insertions: batch.count)
      for hash in hashes { live.index.makeUnique(hash) }
    }
    try log.appendSyncMarkIfDue(live.digest)
    let first = log.lastSequence
    // From here on these numbers are used up, even if the append fails.
    log.lastSequence += UInt64(batch.count)
    let places = try appendAll(batch, after: first)
    assert(places.count == batch.count, "a part of a batch was appended")
    compressor.trim()
    for index in 0..<batch.count {
      let found = entry(of: index, batch, places, hashes[index], older[index], after: first)
      let operation = batch.operations[index]
      addExpiry(of: operation, at: places[index].address)
      apply(
        operation.kind.effect, at: places[index].address, length: places[index].length,
        sequence: first + UInt64(index) + 1, hash: hashes[index], keyspace: operation.keyspace,
        over: found)
    }
    publishRecent(batch, places, hashes)
    log.publish()
    recordCommit(of: batch)
    return .done(SequenceNumber(rawValue: log.lastSequence))
  }

  /// Commits a batch of one operation. The operation may be as large as its value, and asks for
  /// exactly the room that it takes: in a segment larger than others, records in the space after it
  /// could not be addressed.
  private mutating func commitAlone(
    _ batch: BatchPieces, _ prepared: PreparedValue?
  ) throws(StoreError) -> Outcome<SequenceNumber?> {
    let operation = batch.operations[0]
    let key = batch.key(0)
    if operation.kind.effect == .removes { return try delete(key, keyspace: operation.keyspace) }
    let outcome = try batch.withValue(0) { (value) throws(StoreError) in
      try put(
        key, value, keyspace: operation.keyspace, expiry: operation.expiryMilliseconds, prepared)
    }
    return outcome.optional
  }

  /// Returns the largest size of this operation's record.
  private static func recordBound(_ operation: BatchOperation) -> Int {
    recordBound(keyLength: operation.keyLength, valueLength: operation.valueLength)
  }

  private func hashesFetchingBuckets(_ batch: BatchPieces) -> [UInt64] {
    var hashes: [UInt64] = []
    hashes.reserveCapacity(batch.count)
    for position in 0..<batch.count {
      let hash = hash(batch.key(position), batch.operations[position].keyspace)
      live.index.prefetch(hash)
      hashes.append(hash)
    }
    return hashes
  }

  /// Returns the records that the keys have so far.
  private mutating func replacedRecords(
    _ batch: BatchPieces, _ hashes: [UInt64]
  ) throws(StoreError) -> [ReplacedRecord?] {
    var older: [ReplacedRecord?] = []
    older.reserveCapacity(batch.count)
    if live.index.needsCare { for hash in hashes { try validatePages(hash) } }
    for position in 0..<batch.count {
      let keyspace = batch.operations[position].keyspace
      let found = try log.table.find(
        batch.key(position), keyspace, hash: hashes[position], in: live.index)
      older.append(found.map(ReplacedRecord.init))
    }
    return older
  }

  mutating func appendAll(
    _ batch: BatchPieces, after first: UInt64
  ) throws(StoreError) -> [(address: Address, length: Int)] {
    let start = log.end
    var places: [(address: Address, length: Int)] = []
    places.reserveCapacity(batch.count)
    do throws(StoreError) {
      for index in 0..<batch.count {
        places.append(try append(index, of: batch, sequence: first + UInt64(index) + 1))
      }
    } catch {
      // The first append has cut off its own bytes.
      if places.isEmpty { throw error }
      log.removeRecords(from: start)
      throw error
    }
    return places
  }

  private mutating func append(
    _ index: Int, of batch: BatchPieces, sequence: UInt64
  ) throws(StoreError) -> (address: Address, length: Int) {
    let operation = batch.operations[index]
    let key = batch.key(index)
    let count = batch.count
    return try batch.withValue(index) { (value) throws(StoreError) in
      var draft = RecordDraft(
        sequence: sequence, kind: operation.kind, keyspace: operation.keyspace, key: key,
        value: value, compressed: compressor.compress(value))
      draft.batch = index == count - 1 ? .end : .more
      draft.batchCount = UInt32(count)
      draft.expiryMilliseconds = operation.expiryMilliseconds
      return (try log.append(draft), draft.length)
    }
  }

  /// Adds the record of an operation to those that expire, if it expires.
  mutating func addExpiry(of operation: BatchOperation, at address: Address) {
    guard operation.expiryMilliseconds != 0 else { return }
    log.table.addExpiry(operation.expiryMilliseconds, at: address)
  }

  /// Notifies the watchers, once for each keyspace.
  func recordCommit(of batch: BatchPieces) {
    let first = batch.operations[0].keyspace
    if batch.operations.allSatisfy({ $0.keyspace == first }) {
      keyspaces.recordCommit(first)
    } else {
      for id in Set(batch.operations.map(\.keyspace)) { keyspaces.recordCommit(id) }
    }
  }

  /// Returns the entry of an operation's key as the operations before it have left it. Reads no
  /// record, so that it cannot fail: the batch is in the log by now.
  func entry(
    of index: Int, _ batch: BatchPieces, _ places: [(address: Address, length: Int)],
    _ hash: UInt64, _ older: ReplacedRecord?, after first: UInt64
  ) -> ReplaceableEntry? {
    var candidates = live.index.candidates(hash)
    while let entry = live.index.next(&candidates) {
      let address = entry.address
      if let older, older.address == address {
        return ReplaceableEntry(entry: entry, length: older.length, sequence: older.sequence)
      }
      // The entry names a record of this batch. These records lie in the order of the operations.
      guard address.slot == places[0].address.slot, address.offset >= places[0].address.offset
      else { continue }
      let own = places[..<index].partitioningIndex { $0.address.offset >= address.offset }
      if own < index, batch.areAboutTheSame(own, index) {
        return ReplaceableEntry(
          entry: entry, length: places[own].length, sequence: first + UInt64(own) + 1)
      }
    }
    return nil
  }
}
