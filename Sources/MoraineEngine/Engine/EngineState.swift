import MoraineFormat
import MoraineStorage

/// The whole state of an open store, for the one who has it: the actor, or whoever opens it.
struct EngineState: ~Copyable {
  var index: HashIndex
  var table: SegmentTable
  var active: ActiveSegment? {
    didSet {
      position.slot = active?.slot ?? -1
      position.roomEnd = active?.roomEnd ?? 0
      position.putEnd = reserve.isFull ? position.roomEnd : 0
      position.isMapped = active?.allocated != nil
    }
  }
  /// What appends need of `active`, without its references.
  var position = AppendPosition()
  var manifest: Manifest
  let configuration: Configuration
  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// What ties it to the other processes that have the store open.
  var link: SharedLink?
  /// What that link's page said when it was read: another nonce is another life of the page. The
  /// version is 0 where the page was made for this state.
  var followed: (nonce: UInt64, version: UInt64) = (0, 0)
  /// Whether others had the store open, and the committing thread knows nothing of it yet.
  var hasJoined = false
  /// Whether taking in what others have written has failed in the middle: then all is to be read
  /// anew.
  var isFollowedInPart = false
  let pipeline: CommitPipeline
  var compressor = Compressor()
  /// How often a value that ``PreparedValue`` is for was compressed; for tests.
  var largeCompressionCount = 0
  let writeScratch = ScratchBuffer()
  var digest = StateDigest()
  var lastSequence: UInt64 = 0
  var liveBytes: UInt64 = 0
  var appendedBytes: UInt64 = 0
  /// The space kept back for deletes.
  var reserve: Reserve {
    didSet { position.putEnd = reserve.isFull ? position.roomEnd : 0 }
  }
  var keyspaces: KeyspaceTable
  let observers: Observers
  var report = RecoveryReport()
  /// That were there when the store was opened.
  var checkpointNames: [String] = []
  let forkGeneration: UInt64

  init(
    directory: any StorageDirectory, lock: (any StorageFile)?, manifest: Manifest,
    configuration: Configuration, pipeline: CommitPipeline, observers: Observers
  ) throws(StoreError) {
    index = try HashIndex()
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
  /// From now on nothing is written unless the names in the directory lead to this store's files.
  ///
  /// - Parameter link: what ties the store to the other processes that have it open.
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

  /// What the manifest would say now.
  ///
  /// - Parameter sealing: the segment that has its footer but is not durable yet, and how far its
  ///   log has marked itself durable. Until it is, it vouches for no more than that.
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
      // What the log itself has marked. The pipeline's own figure may still be the last segment's.
      next.watermarkOffset = UInt64(sealing?.markedOffset ?? position.markedOffset)
      next.digest = StateDigest()
    } else {
      next.watermarkSegment = 0
      next.watermarkOffset = 0
      next.digest = digest
    }
    return next
  }

  /// Takes a manifest that was published. Numbers may have been used up since it was made.
  mutating func adoptManifest(_ next: Manifest) {
    let number = max(manifest.nextSegmentNumber, next.nextSegmentNumber)
    manifest = next
    manifest.nextSegmentNumber = number
  }

  func directoryHandle() -> any StorageDirectory { directory }

  /// Writes the footer of the active segment; it takes no more records.
  mutating func appendFooter() throws(StoreError) {
    guard let active, !active.hasFooter else { return }
    let view = table[active.slot]
    let footer = SegmentFooter(
      recordCount: view.recordCount, firstSequence: SequenceNumber(rawValue: view.firstSequence),
      lastSequence: SequenceNumber(rawValue: view.lastSequence),
      wallMilliseconds: SystemClock.wallMilliseconds(), digest: digest)
    try appendSystemRecord(.footer, footer.encoded())
    self.active?.hasFooter = true
  }

  /// What is still to be done with a segment that has its footer, on the committing thread.
  func sealWork(_ segment: ActiveSegment) -> SealWork {
    SealWork(
      number: table.infos[segment.slot].number, file: segment.file, mapping: segment.mapping,
      lengthBytes: UInt64(table[segment.slot].end),
      lastSequence: table[segment.slot].lastSequence, lock: lock)
  }
}

extension EngineState {
  /// Takes the active segment, which has its footer, out of use.
  mutating func sealActive() -> SealWork? {
    guard let active else { return nil }
    let work = sealWork(active)
    table.infos[active.slot].flags.insert(.sealed)
    self.active = nil
    return work
  }

  /// What the manifest will say when the segment is durable.
  mutating func manifestAfterSealing(_ segment: ActiveSegment) -> Manifest {
    table.infos[segment.slot].flags.insert(.sealed)
    manifest = nextManifest()
    return manifest
  }
}

extension EngineState {
  /// The value of a key where it lies, or a copy where it must be decompressed or was read into a
  /// buffer that the next read uses again. Its checksum is verified.
  mutating func storedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: index) else { return nil }
    try table.verify(found.record, at: found.address)
    let slot = found.address.slot
    if found.record.header.codec == .raw, table[slot].base != nil,
      let mapping = table.infos[slot].mapping
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try table.value(of: found.record, at: found.address))
  }

  /// The value of a key: its checksum verified, decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: index) else { return nil }
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
    return try table.find(key, keyspace, hash: hash, in: index) != nil
  }
}

enum StoredValue {
  /// Bytes in a mapping, which the borrower keeps as long as it uses them: the store may drop the
  /// segment while the bytes are lent, when the borrower calls the store again and the store
  /// applies what another process has compacted.
  case inPlace(UnsafeRawBufferPointer, any FileMapping)
  case copy([UInt8])
}
