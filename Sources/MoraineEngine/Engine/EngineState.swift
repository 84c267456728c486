import MoraineFormat
import MoraineStorage

/// The whole state of an open store. The actor owns it, or the code that opens the store.
struct EngineState: ~Copyable {
  var live: LiveIndex
  var table: SegmentTable
  var active: ActiveSegment? {
    didSet {
      position.slot = active?.slot ?? -1
      position.roomEnd = active?.roomEnd ?? 0
      position.putEnd = reserve.isFull ? position.roomEnd : 0
      position.isMapped = active?.allocated != nil
    }
  }
  /// The fields of `active` that appends need, without its references.
  var position = AppendPosition()
  var manifest: Manifest
  let configuration: Configuration
  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// The link to the other processes that have the store open.
  var link: SharedLink?
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
  let writeScratch = ScratchBuffer()
  var lastSequence: UInt64 = 0
  var appendedBytes: UInt64 = 0
  /// The space that is reserved for deletes.
  var reserve: Reserve {
    didSet { position.putEnd = reserve.isFull ? position.roomEnd : 0 }
  }
  var keyspaces: KeyspaceTable
  let observers: Observers
  var report = RecoveryReport()
  /// Names of the checkpoints that existed when the store was opened.
  var checkpointNames: [String] = []
  let forkGeneration: UInt64

  init(
    directory: any StorageDirectory, lock: (any StorageFile)?, manifest: Manifest,
    configuration: Configuration, pipeline: CommitPipeline, observers: Observers
  ) throws(StoreError) {
    live = try LiveIndex()
    table = SegmentTable(
      directory: directory, hashKey: manifest.hashKey, isAlone: configuration.isAlone)
    reserve = Reserve(directory: directory)
    keyspaces = KeyspaceTable(manifest.keyspaces, observers)
    self.observers = observers
    self.directory = directory
    self.lock = lock
    self.manifest = manifest
    self.configuration = configuration
    self.pipeline = pipeline
    forkGeneration = CurrentProcess.forkGeneration
    observers.life.took(directory)
  }

  @inline(__always)
  func hash(_ key: UnsafeRawBufferPointer, _ keyspace: UInt16) -> UInt64 {
    KeyHash.hash(key, keyspace: keyspace, with: manifest.hashKey)
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
        directory, common: (lock.map { [$0] } ?? []) + (link?.files ?? []), manifest: manifest,
        isShared: configuration.sharing == .shared))
  }

  func publisher() -> ManifestPublisher {
    ManifestPublisher(directory: directory, pipeline: pipeline)
  }

  /// Returns the manifest of the present state.
  ///
  /// - Parameter sealing: the segment that has its footer but is not durable yet, and the offset up
  ///   to which its log has marked itself durable. Until the segment is durable, the manifest
  ///   vouches for no more than that.
  func nextManifest(
    sealing: (segment: ActiveSegment, markedOffset: Int)? = nil
  ) -> Manifest {
    var next = manifest
    next.generation += 1
    next.lastSequence = SequenceNumber(rawValue: lastSequence)
    next.createdMilliseconds = SystemClock.wallMilliseconds()
    next.segments = table.order.map { table.infos[$0].entry(table[$0]) }
    if let slot = sealing?.segment.slot ?? active?.slot {
      next.watermarkSegment = table.infos[slot].number.rawValue
      // The offset that the log itself has marked. The pipeline's own offset may still be that of
      // the last segment.
      next.watermarkOffset = UInt64(sealing?.markedOffset ?? position.markedOffset)
      next.digest = StateDigest()
    } else {
      next.watermarkSegment = 0
      next.watermarkOffset = 0
      next.digest = live.digest
    }
    return next
  }

  /// Adopts a manifest that was published. Numbers may have been used up since it was made.
  mutating func adoptManifest(_ next: Manifest) {
    let number = max(manifest.nextSegmentNumber, next.nextSegmentNumber)
    manifest = next
    manifest.nextSegmentNumber = number
  }

  func directoryHandle() -> any StorageDirectory { directory }

  /// Writes the footer of the active segment, which then accepts no more records.
  mutating func appendFooter() throws(StoreError) {
    guard let active, !active.hasFooter else { return }
    let view = table[active.slot]
    let footer = SegmentFooter(
      recordCount: view.recordCount, firstSequence: SequenceNumber(rawValue: view.firstSequence),
      lastSequence: SequenceNumber(rawValue: view.lastSequence),
      wallMilliseconds: SystemClock.wallMilliseconds(), digest: live.digest)
    try appendSystemRecord(.footer, footer.encoded())
    self.active?.hasFooter = true
  }

  /// Returns the work that remains for a segment that has its footer, on the committing thread.
  func sealWork(_ segment: ActiveSegment) -> SealWork {
    SealWork(
      number: table.infos[segment.slot].number, file: segment.file, mapping: segment.mapping,
      lengthBytes: UInt64(table[segment.slot].end),
      lastSequence: table[segment.slot].lastSequence, lock: lock)
  }
}

extension EngineState {
  /// Ends the use of the active segment, which has its footer.
  mutating func sealActive() -> SealWork? {
    guard let active else { return nil }
    let work = sealWork(active)
    table.infos[active.slot].flags.insert(.sealed)
    self.active = nil
    return work
  }

  /// Marks the segment as sealed, and returns the manifest to publish when the segment is durable.
  mutating func manifestAfterSealing(_ segment: ActiveSegment) -> Manifest {
    table.infos[segment.slot].flags.insert(.sealed)
    manifest = nextManifest()
    return manifest
  }
}

extension EngineState {
  /// Returns the value of a key: the stored bytes, or a copy where the value must be decompressed
  /// or was read into a buffer that the next read reuses. The checksum is verified.
  mutating func storedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: live.index) else { return nil }
    try table.verify(found.record, at: found.address)
    let slot = found.address.slot
    if found.record.header.codec == .raw, table[slot].base != nil,
      let mapping = table.infos[slot].mapping
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try table.value(of: found.record, at: found.address))
  }

  /// Returns the value of a key, verified and decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: live.index) else { return nil }
    let record = found.record
    try table.verify(record, at: found.address)
    return try table.value(of: record, at: found.address)
  }
}

extension EngineState {
  mutating func contains(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> Bool {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    return try table.find(key, keyspace, hash: hash, in: live.index) != nil
  }
}

enum StoredValue {
  /// Bytes in a mapping, which the borrower keeps as long as it uses the bytes. The store may drop
  /// the segment while the bytes are borrowed: when the borrower calls the store again, and the
  /// store applies a compaction of another process.
  case inPlace(UnsafeRawBufferPointer, any FileMapping)
  case copy([UInt8])
}
