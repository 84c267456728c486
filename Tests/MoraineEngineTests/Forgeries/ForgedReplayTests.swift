import Foundation
import MoraineFormat
import MoraineStorage
import Testing

@testable import MoraineEngine

/// Records that are each sound, in an order that no writer makes.
@Suite struct ForgedReplayTests {
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]

  /// Returns the files that a killed process leaves: puts, and marks between them.
  private func killedStore(_ mode: Store.Configuration.IOMode) async throws -> (TestDirectory, URL)
  {
    let directory = try TestDirectory()
    let store = try Store(
      at: directory.path, configuration: .testing(ioMode: mode, durability: .sync))
    for number in 0..<8 { try await store.set([UInt8](0..<40), forKey: Key("key \(number)")) }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return (copy, try #require(try copy.segments().first))
  }

  private func expectRefusal(
    _ directory: TestDirectory, _ segment: URL, at place: Int, _ text: String,
    _ mode: Store.Configuration.IOMode
  ) throws {
    let before = try Data(contentsOf: segment)
    for _ in 0..<2 {
      let error = #expect(throws: StoreError.self) {
        try Store(at: directory.path, configuration: .testing(ioMode: mode))
      }
      #expect(error?.code == .corrupted)
      #expect(error?.file == segment.lastPathComponent)
      #expect(error?.offset == UInt64(place))
      #expect(error?.message.contains(text) == true, "\(String(describing: error))")
    }
    #expect(try Data(contentsOf: segment) == before)
  }

  @Test(arguments: modes)
  func markThatPromisesLaterBytesIsRefused(mode: Store.Configuration.IOMode) async throws {
    let (directory, segment) = try await killedStore(mode)
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.kind == .syncMark }
    ) { $0.store(UInt64($1 + recordAlignment), at: RecordHeader.fixedLength) }
    try expectRefusal(
      directory, segment, at: place, "a sync mark confirms bytes that come after it", mode)
  }

  @Test(arguments: modes)
  func batchInterruptedByAMarkIsRefused(mode: Store.Configuration.IOMode) async throws {
    let (directory, segment) = try await killedStore(mode)
    let places = try segment.recordPlaces
    let mark = try #require(places.firstIndex { $0.header.kind == .syncMark })
    let before = places[mark - 1]
    try #require(before.header.kind == .put)
    try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.offset == before.offset }
    ) { record, _ in record[15] |= BatchRole.more.rawValue << 6 }
    let place = places[mark].offset
    try expectRefusal(directory, segment, at: place, "a mark precedes its last record", mode)
  }

  /// An address could not name this record. The file has a hole where the records before it would
  /// be.
  @Test func recordThatBeginsPastOneGiBIsRefused() throws {
    let directory = try TestDirectory()
    let storage = DiskStorage()
    try storage.createDirectory(directory.path)
    let folder = try #require(try storage.openDirectory(directory.path))
    let file = try folder.createFile("huge")
    let place = StoreLimits.recordOffsetBytes
    let seed = Checksum(7)
    var record = [UInt8](repeating: 0, count: 24)
    Array("abc".utf8).withUnsafeBytes { key in
      let draft = RecordDraft(
        sequence: 1, kind: .put, key: key, stored: UnsafeRawBufferPointer(start: nil, count: 0))
      record.withUnsafeMutableBytes {
        draft.write(to: $0.baseAddress!, at: UInt64(place), seed: seed)
      }
    }
    try record.withUnsafeBytes { try file.write($0, at: UInt64(place)) }
    let pipeline = CommitPipeline()
    defer { pipeline.stop() }
    let identifier = StoreIdentifier(low: 1, high: 2)
    var state = try EngineState(
      directory: folder, lock: nil,
      manifest: Manifest(
        storeID: identifier, instanceID: identifier, hashKey: HashKey(k0: 3, k1: 4)),
      configuration: .testing(ioMode: .positional), pipeline: pipeline, observers: Observers())
    let slot = state.log.table.append(
      SegmentView(base: nil, end: place, seed: seed),
      SegmentInfo(number: SegmentNumber(rawValue: 1), epoch: 1, salt: 1))
    let source = ByteSource(file: file, name: "huge", length: place + 24, mapping: nil)
    let scanner = SegmentScanner(source: source, name: "huge", seed: seed, offset: place)
    var replay = Replay(slot: slot, name: "huge", scanner: scanner)
    do throws(StoreError) {
      _ = try replay.run(&state)
      Issue.record("a record that no address can name")
    } catch {
      #expect(error.code == .corrupted)
      #expect(error.file == "huge")
      #expect(error.offset == UInt64(place))
    }
    #expect(state.live.index.count == 0)
  }
}
