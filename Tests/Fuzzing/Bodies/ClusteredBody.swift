import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// The ordered fixture with changed records in its segments, which lie in the order of keys. All
/// checksums are right, and on demand also the footers, the figures in the manifest, and the digest
/// of the state.
///
/// A store that verifies answers as a sorted dictionary with the contents that it lists, with its
/// index checkpoint and without it, also after writes and compactions. A salvage that reports no
/// loss has recovered all of it. Nothing traps or hangs.
enum ClusteredBody {
  private static let hasCheckpoint = FuzzFlags(rawValue: 1)
  private static let isPositional = FuzzFlags(rawValue: 2)
  private static let isAccounted = FuzzFlags(rawValue: 4)
  private static let isSalvaged = FuzzFlags(rawValue: 8)
  private static let isUnmended = FuzzFlags(rawValue: 16)

  /// The input: flags, the number of edits, the edits, the operations.
  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var files = try OrderedFixture.files()
    if !flags.contains(hasCheckpoint) { files.removeCheckpoints() }
    var segments = SegmentEdits(files)
    for _ in 0..<input.byte() & 7 { segments.apply(&input) }
    if flags.contains(isAccounted) { segments.correctFooters() }
    segments.store(in: &files, isMended: !flags.contains(isUnmended))
    if flags.contains(isAccounted) { try Self.correctManifest(of: &files) }
    let configuration = Store.Configuration.fuzzing(
      flags.contains(isPositional) ? .positional : .mapped)
    let expected = try await compare(files, configuration)
    if flags.contains(isSalvaged) { try await salvage(files, expected) }
    let opened = try await OrderedRun(
      files, configuration, model: expected ?? OrderedModel(), isExact: expected != nil)
    guard var run = opened else { return }
    run.isChanged = expected == nil
    try await run.steps(&input)
    try await run.end()
    try await run.checkLog()
  }

  /// Computes the figures of the segments and the digest of the state from the records.
  private static func correctManifest(of files: inout StoreFiles) throws {
    var manifest = try files.manifest()
    var live: [Place: (sequence: UInt64, segment: Int, length: Int, isPut: Bool)] = [:]
    for index in manifest.segments.indices {
      let bytes = files[manifest.segments[index].number.fileName] ?? []
      var entry = manifest.segments[index]
      var sequences: [UInt64] = []
      SegmentBytes(bytes).forEachRecord { _, record, base in
        guard record.kind == .put || record.kind == .delete else { return }
        let key = UnsafeRawBufferPointer(start: base + record.keyOffset, count: record.keyLength)
        let place = Place(keyspace: record.keyspace, key: Array(key))
        sequences.append(record.sequence)
        if live[place]?.sequence ?? 0 < record.sequence {
          live[place] = (record.sequence, index, aligned(record.length), record.kind == .put)
        }
      }
      entry.lengthBytes = UInt64(bytes.count)
      entry.recordCount = UInt64(sequences.count)
      entry.firstSequence = SequenceNumber(rawValue: sequences.min() ?? 0)
      entry.lastSequence = SequenceNumber(rawValue: sequences.max() ?? 0)
      entry.liveBytes = 0
      manifest.segments[index] = entry
      manifest.lastSequence = max(manifest.lastSequence, entry.lastSequence)
    }
    manifest.digest = StateDigest()
    for (place, record) in live where record.isPut {
      manifest.segments[record.segment].liveBytes += UInt64(record.length)
      let hash = place.key.withUnsafeBytes {
        KeyHash.hash($0, keyspace: place.keyspace, with: manifest.hashKey)
      }
      manifest.digest.add(.of(hash: hash, sequence: record.sequence))
    }
    files[Manifest.fileName] = manifest.encoded()
  }

  private struct Place: Hashable {
    let keyspace: UInt16
    let key: [UInt8]
  }

  /// Returns the contents of a store that verifies; nil when it does not open or verify.
  private static func compare(
    _ files: StoreFiles, _ configuration: Store.Configuration
  ) async throws -> OrderedModel? {
    guard let with = try await sound(files, configuration) else { return nil }
    guard files.checkpointName != nil else { return with }
    var bare = files
    bare.removeCheckpoints()
    guard let without = try await sound(bare, configuration) else {
      throw Finding("it verifies with its checkpoint, and not without")
    }
    try require(with == without, "it verifies, and says something else than the log does")
    return with
  }

  private static func sound(
    _ files: StoreFiles, _ configuration: Store.Configuration
  ) async throws -> OrderedModel? {
    let allowed = Refusals(codes: [.corrupted, .newerFormat])
    var readOnly = configuration
    readOnly.isReadOnly = true
    let storage = try files.storage()
    let opened = try allowed.attempt {
      try Store(on: storage, at: "store", configuration: readOnly)
    }
    guard let store = opened else { return nil }
    let report = try await store.verify()
    for problem in report.problems { try allowed.check(problem) }
    let listed = try await allowed.attempt { try await OrderedModel(of: store) }
    try await store.close()
    try require(try StoreFiles(of: storage).files == files.files, "a reader changed a file")
    guard report.isSound else { return nil }
    guard let listed else { throw Finding("it verifies, and cannot be listed") }
    return listed
  }

  private static func salvage(_ files: StoreFiles, _ expected: OrderedModel?) async throws {
    let storage = try files.storage()
    let allowed = Refusals(codes: [.corrupted, .newerFormat, .notAStore], needsFile: false)
    let report = try await allowed.attempt {
      try await Store.salvage("store", to: "salvaged", on: storage)
    }
    guard let report else { return }
    let store = try Store(on: storage, at: "salvaged")
    let found = try await OrderedModel(of: store)
    try await store.close()
    guard let expected, report.isComplete else { return }
    try require(found == expected, "salvage says that nothing is lost, and it is something else")
  }
}
