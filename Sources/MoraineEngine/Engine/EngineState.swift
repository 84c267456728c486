import MoraineFormat
import MoraineStorage

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
  let pipeline: CommitPipeline
  var compressor = Compressor()
  /// Number of times that a value of the size for ``PreparedValue`` was compressed; for tests.
  var largeCompressionCount = 0
  var keyspaces: KeyspaceTable
  let observers: Observers
  var report = RecoveryReport()
  /// Names of the checkpoints that existed when the store was opened.
  var checkpointNames: [String] = []
  let forkGeneration: UInt64

  init(
    directory: any StorageDirectory, lock: (any StorageFile)?, manifest: Manifest,
    configuration: Store.Configuration, pipeline: CommitPipeline, observers: Observers
  ) throws(StoreError) {
    live = try LiveIndex()
    log = Log(
      directory: directory, lock: lock, manifest: manifest, configuration: configuration,
      pipeline: pipeline)
    keyspaces = KeyspaceTable(manifest.keyspaces, observers)
    self.observers = observers
    self.directory = directory
    self.configuration = configuration
    self.pipeline = pipeline
    forkGeneration = CurrentProcess.forkGeneration
    observers.life.took(directory)
  }

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

extension EngineState {
  /// Returns the value of a key: the stored bytes, or a copy where the value must be decompressed
  /// or was read into a buffer that the next read reuses. The checksum is verified.
  mutating func storedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try log.table.find(key, keyspace, hash: hash, in: live.index) else {
      return nil
    }
    try log.table.verify(found.record, at: found.address)
    let slot = found.address.slot
    if found.record.header.codec == .raw, log.table[slot].base != nil,
      let mapping = log.table.infos[slot].mapping
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try log.table.value(of: found.record, at: found.address))
  }

  /// Returns the value of a key, verified and decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try log.table.find(key, keyspace, hash: hash, in: live.index) else {
      return nil
    }
    let record = found.record
    try log.table.verify(record, at: found.address)
    return try log.table.value(of: record, at: found.address)
  }
}

extension EngineState {
  mutating func contains(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> Bool {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    return try log.table.find(key, keyspace, hash: hash, in: live.index) != nil
  }
}

enum StoredValue {
  /// Bytes in a mapping, which the borrower keeps as long as it uses the bytes. The store may drop
  /// the segment while the bytes are borrowed: when the borrower calls the store again, and the
  /// store applies a compaction of another process.
  case inPlace(UnsafeRawBufferPointer, any FileMapping)
  case copy([UInt8])
}

// Calls of the log that need the figures of the live records.
extension EngineState {
  /// Returns the manifest of the present state: see ``Log/nextManifest(sealing:digest:)``.
  func nextManifest(
    sealing: (segment: ActiveSegment, markedOffset: Int)? = nil
  ) -> Manifest {
    log.nextManifest(sealing: sealing, digest: live.digest)
  }

  /// Marks the segment as sealed, and returns the manifest to publish when the segment is durable.
  mutating func manifestAfterSealing(_ segment: ActiveSegment) -> Manifest {
    log.manifestAfterSealing(segment, digest: live.digest)
  }

  /// Writes the footer of the active segment, which then accepts no more records.
  mutating func appendFooter() throws(StoreError) { try log.appendFooter(live.digest) }

  /// Returns the job that creates the next segment: see
  /// ``Log/nextSegmentCreation(for:liveBytes:)``.
  mutating func nextSegmentCreation(for count: Int) -> SegmentCreation {
    log.nextSegmentCreation(for: count, liveBytes: live.bytes)
  }

  /// Segment size that fits the store: see ``Log/fittingSegmentBytes(liveBytes:)``.
  var fittingSegmentBytes: Int { Log.fittingSegmentBytes(liveBytes: live.bytes) }
}
