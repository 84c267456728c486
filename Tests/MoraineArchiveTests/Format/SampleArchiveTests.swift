import Foundation
import MoraineArchive
import MoraineEngine
import MoraineFormat
import Testing

/// An archive of a real store, as objects of the format.
@Suite struct SampleArchiveTests {
  /// Returns the folder that this variable of the environment names, for a reader in another
  /// language: `archive` gets the objects, and `states/<position>` a backup of each state.
  private static var sampleFolder: URL? {
    ProcessInfo.processInfo.environment["MORAINE_ARCHIVE_SAMPLE"].map {
      URL(filePath: $0, directoryHint: .isDirectory)
    }
  }

  private static func write(_ round: Int, to store: Store) async throws {
    let users = try store.keyspace(named: "users")
    let log = try store.orderedKeyspace(named: "log")
    for number in 0..<40 {
      let value = Array("round \(round), value \(number)".utf8)
      try await store.set(value + value, forKey: Key("key \(number)"))
      if round > 1 { try await users.set(value, forKey: Key("user \(round) \(number)")) }
      if round > 2 { try await log.set(value, forKey: Key("entry \(round) \(number)")) }
    }
    try await store.removeValue(forKey: Key("key \(round)"))
  }

  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.compaction = .manual
    return configuration
  }

  /// Writes a store round by round, and archives it with every kind of commit.
  private static func archive(in folder: URL) async throws -> SampleArchive {
    var archive = try SampleArchive(seed: 1)
    var rounds = 0
    func state(of store: Store) async throws -> StoreState {
      rounds += 1
      try await write(rounds, to: store)
      return try await StoreState(of: store, in: folder.appending(path: "backup-\(rounds)"))
    }
    let store = try await Store.open(
      at: folder.appending(path: "store").path, configuration: configuration)
    let first = try await state(of: store)
    archive.addIdentity(of: first)
    archive.addFence(base: 0, first)  // 1
    try archive.addCheckpoint()
    try archive.addTail(try await state(of: store))  // 2
    try archive.addTail(try await state(of: store), inTwo: true)  // 3, 4
    try archive.addCheckpoint()
    try archive.add(.beat)  // 5
    try archive.add(.close)  // 6
    let fourth = try await state(of: store)
    guard let closed = archive.states[6] else { throw SampleArchive.Unexpected(what: "no state") }
    archive.addFence(base: 6, closed)  // 7
    try archive.addTail(fourth)  // 8
    _ = try await state(of: store)
    try await store.compact()
    archive.addGap(try await state(of: store))  // 9
    try archive.addTail(try await state(of: store))  // 10
    try await store.close()
    // A copy that was restored from the state at position 8 continues in a new epoch.
    let path = folder.appending(path: "restored").path
    try await Store.restore(fourth.directory.path, to: path)
    let restored = try await Store.open(at: path, configuration: configuration)
    let begun = try await StoreState(of: restored, in: folder.appending(path: "backup-restored"))
    archive.addFence(base: 8, begun)  // 11
    try archive.addTail(try await state(of: restored))  // 12
    archive.addHint()
    try await restored.close()
    return archive
  }

  private static func write(_ archive: SampleArchive, to folder: URL) throws {
    let files = FileManager.default
    for (name, bytes) in archive.objects {
      let file = folder.appending(path: "archive").appending(path: name.text)
      try files.createDirectory(
        at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(bytes).write(to: file)
    }
    let states = folder.appending(path: "states")
    try files.createDirectory(at: states, withIntermediateDirectories: true)
    for (position, state) in archive.states {
      try files.copyItem(at: state.directory, to: states.appending(path: "\(position)"))
    }
  }

  @Test func archiveOfARealStoreHoldsItsStates() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { _ = Result { try FileManager.default.removeItem(at: folder) } }
    let archive = try await Self.archive(in: folder)
    if let sample = Self.sampleFolder { try Self.write(archive, to: sample) }
    #expect(archive.states.count == 11)
    var reader = SampleReader(archive: archive)
    // Each line: a checkpoint or a gap, and the commits after it.
    for (start, positions) in [(1, 2...4), (4, 5...8), (9, 10...10)]
      as [(UInt64, ClosedRange<UInt64>)]
    {
      try reader.begin(at: start)
      for position in positions {
        try reader.apply(position)
        guard let state = archive.states[position] else { continue }
        #expect(reader.segments == state.segments, "position \(position)")
      }
    }
    try reader.begin(at: 4)
    for position in [5, 6, 7, 8, 11, 12] as [UInt64] { try reader.apply(position) }
    #expect(reader.segments == archive.states[12]?.segments)
    for name in archive.objects.keys { #expect(archive.names.object(named: name) != nil) }
  }
}

/// A reader that puts segments together from the objects of a sample.
private struct SampleReader {
  let archive: SampleArchive
  private(set) var segments: [SegmentNumber: [UInt8]] = [:]

  init(archive: SampleArchive) { self.archive = archive }

  private func object(_ name: ObjectName) throws -> [UInt8] {
    guard let bytes = archive.objects[name] else {
      throw SampleArchive.Unexpected(what: "no object \(name)")
    }
    return bytes
  }

  /// Takes the state of the checkpoint or of the gap at a position.
  mutating func begin(at position: UInt64) throws {
    let names = archive.names
    let records = try (1...2).map { try CheckpointRecord(object(names.checkpoint($0))) }
    let header = try Commit(object(names.commit(position))).header
    let checkpoint = records.first { $0.position == position }
    #expect(checkpoint == nil || checkpoint?.commitNonce == header.nonce)
    guard let reference = checkpoint?.contents ?? header.contents else {
      throw SampleArchive.Unexpected(what: "no contents at \(position)")
    }
    let bytes = try object(names.data(reference.name))
    let contents = try bytes.withUnsafeBytes {
      try reference.verify($0)
      return try CheckpointContents(decodingContainer: $0)
    }
    segments = [:]
    for segment in contents.segments {
      let container = try object(names.data(segment.object))
      #expect(UInt64(container.count) == segment.objectByteCount)
      segments[segment.number] = try container.withUnsafeBytes {
        try ContainerReader.rawBytes(of: $0, limit: Int(segment.lengthBytes))
      }
    }
  }

  mutating func apply(_ position: UInt64) throws {
    let commit = try Commit(object(archive.names.commit(position)))
    for (piece, range) in zip(commit.header.pieces, commit.header.pieceRanges) {
      #expect(segments[piece.segment]?.count ?? 0 == Int(piece.from), "position \(position)")
      segments[piece.segment, default: []] += commit.rawBytes[range]
    }
  }
}
