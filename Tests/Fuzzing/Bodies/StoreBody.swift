import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// A whole store whose files were changed before their checksums were computed: every checksum is
/// right, and the contents of the files are not.
///
/// Nothing traps or takes memory that the files do not account for. A store that verifies returns
/// the same values with its index checkpoint and without it, and after a compaction. A salvage of a
/// sound store that reports no loss has recovered all of it.
enum StoreBody {
  private static let isPositional = FuzzFlags(rawValue: 1)
  private static let hasCheckpoint = FuzzFlags(rawValue: 2)
  private static let isKilled = FuzzFlags(rawValue: 4)

  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var files = try FixtureStore.files()
    if !flags.contains(hasCheckpoint) { files[FixtureStore.checkpointName] = nil }
    if flags.contains(isKilled) { try reopenLastSegment(&files) }
    try edit(&files, &input)
    let configuration = Store.Configuration.fuzzing(
      flags.contains(isPositional) ? .positional : .mapped)
    try await StoreProbe.run(files, configuration, keys: FixtureStore.keys)
    try await compare(files, configuration)
  }

  /// Opens the last segment again, as a killed process leaves it: then no digest in the manifest
  /// vouches for the state.
  private static func reopenLastSegment(_ files: inout StoreFiles) throws {
    guard let bytes = files[Manifest.fileName] else { return }
    var manifest = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
    let last = manifest.segments.count - 1
    let old = manifest.segments[last]
    manifest.segments[last] = Manifest.Segment(number: old.number, epoch: old.epoch)
    manifest.digest = StateDigest()
    files[Manifest.fileName] = manifest.encoded()
  }

  /// Each edit: the file, the place (2 bytes), the kind of change, its bytes.
  private static func edit(_ files: inout StoreFiles, _ input: inout FuzzInput) throws {
    let names = files.files.keys.sorted()
    var edited: Set<String> = []
    while !input.isAtEnd, edited.count < 8 {
      let name = names[Int(input.byte()) % names.count]
      guard var bytes = files[name], !bytes.isEmpty else { continue }
      let place = input.integer(byteCount: 2) % bytes.count
      let operation = input.byte()
      switch operation & 3 {
      case 0:
        for (offset, byte) in input.take(Int(operation >> 2) % 9 + 1).enumerated()
        where place + offset < bytes.count { bytes[place + offset] = byte }
      case 1: bytes[place] ^= 1 << (operation >> 2 & 7)
      case 2: bytes[place] &+= 1
      default: bytes[place] &-= 1
      }
      files[name] = bytes
      edited.insert(name)
    }
    for name in edited {
      guard var bytes = files[name] else { continue }
      mend(&bytes, name)
      files[name] = bytes
    }
  }

  private static func mend(_ bytes: inout [UInt8], _ name: String) {
    if name == Manifest.fileName {
      guard bytes.count >= 164 else { return }
      bytes.store(UInt32(bytes.count), at: 12)
      bytes.store(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
    } else if name.hasSuffix(".segment") {
      var segment = SegmentBytes(bytes)
      segment.mendHeaderChecksum()
      segment.mendRecords()
      bytes = segment.bytes
    } else {
      CheckpointEdits.mend(&bytes)
    }
  }

  private static func compare(
    _ files: StoreFiles, _ configuration: Store.Configuration
  ) async throws {
    guard let with = try await sound(files, configuration) else {
      return try await salvage(files, expected: nil)
    }
    var bare = files
    for name in bare.files.keys where name.hasSuffix(".index") { bare[name] = nil }
    guard let without = try await sound(bare, configuration) else {
      throw Finding("it verifies with its checkpoint, and not without")
    }
    try require(with == without, "it verifies, and says something else than the log does")
    try await salvage(files, expected: without)
  }

  /// Returns the contents that a reader finds; nil when the store does not open or verify.
  private static func sound(
    _ files: StoreFiles, _ configuration: Store.Configuration
  ) async throws -> [Key: [UInt8]]? {
    let allowed = Refusals(codes: [.corrupted, .newerFormat])
    var readOnly = configuration
    readOnly.isReadOnly = true
    let storage = try files.storage()
    let opened = try allowed.attempt {
      try Store(on: storage, at: "store", configuration: readOnly)
    }
    guard let store = opened else { return nil }
    guard try await store.verify().isSound else {
      try await store.close()
      return nil
    }
    let result = try await CheckpointBody.listed(store)
    try await store.close()
    return result
  }

  private static func salvage(_ files: StoreFiles, expected: [Key: [UInt8]]?) async throws {
    let storage = try files.storage()
    let allowed = Refusals(codes: [.corrupted, .newerFormat, .notAStore], needsFile: false)
    let report = try await allowed.attempt {
      try await Store.salvage("store", to: "salvaged", on: storage)
    }
    guard let report else { return }
    let store = try Store(on: storage, at: "salvaged")
    let found = try await CheckpointBody.listed(store)
    try await store.close()
    guard let expected, report.isComplete else { return }
    try require(found == expected, "salvage says that nothing is lost, and it is something else")
  }
}
