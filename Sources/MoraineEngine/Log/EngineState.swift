import MoraineFormat
import MoraineStorage

/// The whole state of an open store, for the one who has it: the actor, or whoever opens it.
struct EngineState: ~Copyable {
  var index: HashIndex
  var table: SegmentTable
  var active: ActiveSegment? {
    didSet {
      place.slot = active?.slot ?? -1
      place.roomEnd = active?.roomEnd ?? 0
      place.putEnd = reserve.isWhole ? place.roomEnd : 0
      place.isMapped = active?.allocated != nil
    }
  }
  /// What appends need of `active`, without its references.
  var place = AppendPlace()
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
    didSet { place.putEnd = reserve.isWhole ? place.roomEnd : 0 }
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
    forkGeneration = Machine.forkGeneration
    observers.life.took(directory)
  }

  @inline(__always)
  func hash(_ key: UnsafeRawBufferPointer, _ keyspace: UInt16) -> UInt64 {
    KeyHash.hash(key, keyspace: keyspace, with: manifest.hashKey)
  }
}
