import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// Index checkpoints with right checksums and wrong figures or entries, which opening cannot find:
/// the store was killed, so nothing vouches for the sums. Verifying finds them; compaction rebuilds
/// the index from the log, and loses nothing.
@Suite(.timeLimit(.minutes(10))) struct ForgedFiguresTests {
  struct Lie: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let tell: @Sendable (inout CheckpointHeader, inout [UInt8]) -> Void
  }

  private static let keyCount = 100
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private static let lies = [
    Lie(testDescription: "live bytes of one segment counted for another") { header, _ in
      header.segments[0].liveBytes -= 24
      header.segments[1].liveBytes += 24
    },
    Lie(testDescription: "no live bytes") { header, _ in
      for index in header.segments.indices { header.segments[index].liveBytes = 0 }
    },
    Lie(testDescription: "all bytes live") { header, _ in
      for index in header.segments.indices {
        header.segments[index].liveBytes = header.segments[index].endOffset
      }
    },
    Lie(testDescription: "digests of two segments exchanged") { header, _ in
      let first = header.segments[0].digest
      header.segments[0].digest = header.segments[1].digest
      header.segments[1].digest = first
    },
    Lie(testDescription: "an entry less") { header, bytes in
      Self.removeEntry(&header, &bytes)
    },
    Lie(testDescription: "an entry less, and a key less") { header, bytes in
      Self.removeEntry(&header, &bytes)
      header.keyCount -= 1
    },
    Lie(testDescription: "bytes of deletes that were never made") { header, _ in
      header.segments[0].deleteBytes += 40
    },
  ]

  /// Removes the first entry of the first bucket that has one.
  private static func removeEntry(_ header: inout CheckpointHeader, _ bytes: inout [UInt8]) {
    let pages = header.lengthBytes..<bytes.count
    for place in stride(from: pages.lowerBound, to: pages.upperBound, by: 8)
    where bytes.load(UInt64.self, at: place) != 0 {
      bytes.store(UInt64(0), at: place)
      return
    }
  }

  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 2000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private static func closedStore(_ mode: Store.Configuration.IOMode) async throws -> TestDirectory
  {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration(mode)) { store in
      for number in 0..<keyCount { try await store.set([0], forKey: Key("\(number)")) }
      for number in stride(from: 0, to: keyCount, by: 3) {
        try await store.set([1], forKey: Key("\(number)"))
      }
      for number in stride(from: 0, to: keyCount, by: 10) {
        try await store.removeValue(forKey: Key("\(number)"))
      }
    }
    return directory
  }

  private static func killedStore(_ mode: Store.Configuration.IOMode) async throws -> TestDirectory
  {
    let directory = try await closedStore(mode)
    let store = try Store(at: directory.path, configuration: configuration(mode))
    #expect(await store.recoveryReport.usedCheckpoint)
    try await store.set([2], forKey: "later")
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  /// Opens a store for reading, and verifies it.
  private static func findings(
    _ directory: TestDirectory, _ mode: Store.Configuration.IOMode
  ) async throws -> (recovery: RecoveryReport, problems: [StoreError]) {
    var configuration = configuration(mode)
    configuration.isReadOnly = true
    let store = try Store(at: directory.path, configuration: configuration)
    let recovery = await store.recoveryReport
    let problems = try await store.verify().problems
    try await store.close()
    return (recovery, problems)
  }

  private static func check(_ store: Store) async throws {
    for number in 0..<keyCount {
      let value = try await store.value(forKey: Key("\(number)"))
      let expected: [UInt8]? = number % 10 == 0 ? nil : number % 3 == 0 ? [1] : [0]
      #expect(value == expected, "\(number)")
    }
    #expect(try await store.value(forKey: "later") == [2])
    #expect(try await store.count() == 91)
    let report = try await store.verify()
    #expect(report.isSound, "\(report.problems)")
  }

  @Test(arguments: lies, modes)
  func verifyingFindsForgedFigures(_ lie: Lie, mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.killedStore(mode)
    try CheckpointForgery(directory: directory).change { lie.tell(&$0, &$1) }
    let (recovery, problems) = try await Self.findings(directory, mode)
    #expect(recovery.usedCheckpoint)
    #expect(problems.contains { $0.file?.hasSuffix(".index") == true }, "\(problems)")
  }

  /// Regression: the manifest was called damaged too. After an orderly close it contains the live
  /// bytes of each segment, and they were compared with those of the forged index.
  @Test(arguments: lies, modes)
  func onlyTheIndexOfAStoreClosedInOrderIsBlamed(
    _ lie: Lie, mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try await Self.closedStore(mode)
    try CheckpointForgery(directory: directory).change { lie.tell(&$0, &$1) }
    let (recovery, problems) = try await Self.findings(directory, mode)
    #expect(problems.allSatisfy { $0.file?.hasSuffix(".index") == true }, "\(problems)")
    // The opening finds some lies, because the manifest contradicts them, and reads the log.
    #expect(problems.isEmpty == !recovery.usedCheckpoint)
    let unused = recovery.checkpointProblem
    #expect((unused?.file?.hasSuffix(".index") == true) == !recovery.usedCheckpoint)
  }

  /// Regression: the digests in the log were compared with sums that began with the replaced
  /// record, and the segments were called damaged.
  @Test(arguments: modes)
  func entryOfAReplacedRecordIsNoDamageToTheLog(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.closedStore(mode)
    var places: [(segment: SegmentNumber, offset: Int)] = []
    for segment in try directory.segments() {
      let number = try segment.header.number
      for record in try segment.recordPlaces where record.key == Array("3".utf8) {
        places.append((number, record.offset))
      }
    }
    try #require(places.count == 2)
    try CheckpointForgery(directory: directory).change { header, bytes in
      let slots = Dictionary(uniqueKeysWithValues: header.segments.map { ($0.number, $0.slot) })
      let addresses = try places.map { place -> UInt64 in
        let slot = try #require(slots[place.segment])
        return UInt64(slot) << 28 | UInt64(place.offset / 4)
      }
      for place in stride(from: header.lengthBytes, to: bytes.count, by: 8) {
        let entry = bytes.load(UInt64.self, at: place)
        guard entry & ((1 << 48) - 1) == addresses[1] else { continue }
        bytes.store((entry >> 48) << 48 | addresses[0], at: place)
      }
    }
    let (recovery, problems) = try await Self.findings(directory, mode)
    #expect(recovery.usedCheckpoint)
    #expect(problems.contains { $0.message.contains("replaces it") }, "\(problems)")
    #expect(problems.allSatisfy { $0.file?.hasSuffix(".index") == true }, "\(problems)")
  }

  /// Regression: the reason why the checkpoint was not used named a segment, and asked for a
  /// backup.
  @Test(arguments: modes)
  func checkpointThatContradictsAFooterIsBlamed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.closedStore(mode)
    var configuration = Self.configuration(mode)
    configuration.checkpointFloorBytes = .max
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([2], forKey: "later")
    }
    try CheckpointForgery(directory: directory).change { header, _ in
      // The footer at the end of the covered part has another number, so it is not compared.
      header.lastSequence += 1
      let digest = StateDigest.of(hash: 1, sequence: 1)
      header.digest.add(digest)
      header.segments[0].digest.add(digest)
    }
    let (recovery, problems) = try await Self.findings(directory, mode)
    #expect(!recovery.usedCheckpoint)
    #expect(recovery.checkpointProblem?.file?.hasSuffix(".index") == true)
    let message = recovery.checkpointProblem?.message ?? ""
    #expect(message.contains("contradicts") && message.contains(".segment"), "\(message)")
    #expect(!message.contains("backup"), "\(message)")
    #expect(problems.isEmpty, "\(problems)")
  }

  @Test(arguments: lies, modes)
  func compactionLosesNothing(_ lie: Lie, mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.killedStore(mode)
    try CheckpointForgery(directory: directory).change { lie.tell(&$0, &$1) }
    let configuration = Self.configuration(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    for number in stride(from: 1, to: Self.keyCount, by: 10) {
      try await store.set([number % 3 == 0 ? 1 : 0], forKey: Key("\(number)"))
    }
    // Of deletes that were never made there is no contradiction, and of nothing else a loss.
    try await store.compact()
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    try await Self.check(again)
    try await again.close()
  }

  /// A segment that is wrongly marked as clean of the records that a delete hides lets compaction
  /// drop the delete.
  @Test(arguments: modes)
  func checkpointThatDeclaresASegmentCleanIsNotUsed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.killedStore(mode)
    try CheckpointForgery(directory: directory).change { header, _ in
      header.segments[0].cleanedThrough = header.lastSequence
    }
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    try await Self.check(store)
    try await store.close()
  }

  private static func manifest(_ directory: TestDirectory) throws -> Manifest {
    let url = directory.store.appendingPathComponent(Manifest.fileName)
    return try [UInt8](Data(contentsOf: url)).withUnsafeBytes { try Manifest(decoding: $0) }
  }

  /// The first segment, which compaction wrote, has a record that a delete in the second one hides.
  /// A later compaction has left both segments as they are.
  @Test(arguments: modes)
  func compactionKeepsADeleteThatACheckpointCallsNeedless(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration(mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<Self.keyCount { try await store.set([0], forKey: Key("\(number)")) }
      try await store.sync()
      try await store.compact(segments: 0..<1)
      try await store.removeValue(forKey: "0")
      for number in 0..<3 * Self.keyCount { try await store.set([0], forKey: Key("+\(number)")) }
      try await store.sync()
      try await store.compact(segments: 3..<4)
    }
    let manifest = try Self.manifest(directory)
    let areCompacted = manifest.segments.map { $0.flags.contains(.compacted) }
    try #require(Array(areCompacted.prefix(4)) == [true, false, false, true])
    try CheckpointForgery(directory: directory).change { header, _ in
      for index in header.segments.indices where header.segments[index].cleanedThrough > 0 {
        header.segments[index].cleanedThrough = manifest.compactedThrough.rawValue
      }
    }
    try await withStore(at: directory.path, configuration: configuration) { store in
      #expect(await store.recoveryReport.usedCheckpoint)
      try await store.compact(segments: 1..<2)
    }
    // The log alone must say the same.
    try FileManager.default.removeItem(at: CheckpointForgery(directory: directory).url())
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.value(forKey: "0") == nil)
    #expect(try await store.count() == 4 * Self.keyCount - 1)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// The header of a segment that compaction wrote confirms what a checkpoint says of deletes.
  @Test(arguments: modes)
  func compactionAfterAnOpeningDropsANeedlessDelete(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration(mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<3 * Self.keyCount { try await store.set([0], forKey: Key("\(number)")) }
      try await store.removeValue(forKey: "0")
      for number in 0..<Self.keyCount { try await store.set([0], forKey: Key("+\(number)")) }
      try await store.sync()
      try await store.compact(segments: 0..<1)
    }
    func hasDeletes() throws -> Bool {
      try directory.segments().contains { segment in
        try segment.recordPlaces.contains { $0.header.kind == .delete }
      }
    }
    try #require(try hasDeletes())
    try await withStore(at: directory.path, configuration: configuration) { store in
      #expect(await store.recoveryReport.usedCheckpoint)
      try await store.compact(segments: 1..<100)
    }
    #expect(try !hasDeletes())
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.value(forKey: "0") == nil)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// All sums are as if the key had never existed: the footer after the part that the checkpoint
  /// covers has the digest of the log.
  @Test(arguments: modes)
  func aKeyThatIsMissingEverywhere(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.killedStore(mode)
    let manifest = try [UInt8](
      Data(contentsOf: directory.store.appendingPathComponent(Manifest.fileName))
    ).withUnsafeBytes { try Manifest(decoding: $0) }
    let segment = try #require(try directory.segments().first)
    let record = try #require(try segment.recordPlaces.first { $0.key == Array("1".utf8) })
    let hash = record.key.withUnsafeBytes {
      KeyHash.hash($0, keyspace: 0, with: manifest.hashKey)
    }
    let digest = StateDigest.of(hash: hash, sequence: record.header.sequence)
    try CheckpointForgery(directory: directory).change { header, bytes in
      let slot = UInt64(header.segments[0].slot)
      for place in stride(from: header.lengthBytes, to: bytes.count, by: 8) {
        let entry = bytes.load(UInt64.self, at: place) & ((1 << 48) - 1)
        guard entry == slot << 28 | UInt64(record.offset / 4) else { continue }
        bytes.store(UInt64(0), at: place)
      }
      header.keyCount -= 1
      header.digest.remove(digest)
      header.segments[0].digest.remove(digest)
      header.segments[0].liveBytes -= UInt64(aligned(record.header.length))
    }
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    try await Self.check(store)
    try await store.close()
  }

  /// An index that takes more memory than its log accounts for is not loaded.
  @Test func checkpointLongerThanItsLogIsNotUsed() async throws {
    let directory = try await Self.killedStore(.positional)
    let url = try CheckpointForgery(directory: directory).url()
    try CheckpointForgery(directory: directory).change { header, bytes in
      header.level = 16
      header.bucketCount = 1 << 16
      let count = header.bucketPageCount + header.overflowPageCount
      header.pageChecksums = Array(repeating: 0, count: count)
      bytes += [UInt8](repeating: 0, count: header.fileLengthBytes - bytes.count)
    }
    #expect(try Data(contentsOf: url).count > 4 << 20)
    let store = try Store(
      at: directory.path, configuration: Self.configuration(.positional))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    try await Self.check(store)
    try await store.close()
  }
}

/// Figures of segments, footers and manifests about records, with right checksums.
@Suite struct ForgedCountsTests {
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]

  /// Offsets of the counts and of the digest in a footer.
  private static let fields = [0, 8, 16, 32]

  private static func store(_ mode: Store.Configuration.IOMode) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<40 { try await store.set([1], forKey: Key("\(number)")) }
    }
    return directory
  }

  @Test(arguments: modes, fields)
  func footerWithWrongFiguresIsFoundAtOpening(
    mode: Store.Configuration.IOMode, field: Int
  ) async throws {
    let directory = try await Self.store(mode)
    let segment = try #require(try directory.segments().first)
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.kind == .footer }
    ) { record, _ in record[RecordHeader.fixedLength + field] ^= 1 }
    let error = #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: .testing(ioMode: mode))
    }
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(error?.offset == UInt64(place))
  }

  /// With a checkpoint, opening does not read the footers.
  @Test(arguments: modes, fields)
  func footerWithWrongFiguresBesideACheckpointIsFoundByVerifying(
    mode: Store.Configuration.IOMode, field: Int
  ) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 1000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<40 { try await store.set([1], forKey: Key("\(number)")) }
    }
    let segment = try #require(try directory.segments().first)
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.kind == .footer }
    ) { record, _ in record[RecordHeader.fixedLength + field] ^= 1 }
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    let problems = try await store.verify().problems
    #expect(problems.map(\.file) == [segment.lastPathComponent], "\(problems)")
    #expect(problems.map(\.offset) == [UInt64(place)])
    try await store.close()
  }

  /// Keys are replaced and removed, so that the digest before a mark is not that of all records.
  @Test(arguments: modes)
  func markWithAWrongDigestBesideACheckpointIsFoundByVerifying(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 1000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<40 {
        try await store.set([1], forKey: Key("\(number % 7)"), durability: .sync)
        if number % 5 == 0 { try await store.removeValue(forKey: "3", durability: .sync) }
      }
    }
    let segment = try #require(try directory.segments().first)
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.kind == .syncMark && $0.header.sequence > 3 }
    ) { record, _ in record[RecordHeader.fixedLength + 16] ^= 1 }
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    let problems = try await store.verify().problems
    #expect(problems.map(\.file) == [segment.lastPathComponent], "\(problems)")
    #expect(problems.map(\.offset) == [UInt64(place)])
    try await store.close()
  }

  @Test(arguments: modes)
  func liveBytesOfTheManifestAreCompared(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.store(mode)
    try Forgery(directory: directory).changeManifestFields { $0.segments[1].liveBytes -= 4 }
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    let problems = try await store.verify().problems
    #expect(problems.map(\.file) == [Manifest.fileName], "\(problems)")
    try await store.close()
  }

  @Test(arguments: modes)
  func manifestAfterACompactionHoldsTheLiveBytes(mode: Store.Configuration.IOMode) async throws {
    let directory = try await Self.store(mode)
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<10 { try await store.set([2], forKey: Key("\(number)")) }
      try await store.compact()
    }
    let bytes = [UInt8](
      try Data(contentsOf: directory.store.appendingPathComponent(Manifest.fileName)))
    let manifest = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
    #expect(manifest.segments.contains { $0.flags.contains(.compacted) })
    let store = try Store(at: directory.path, configuration: configuration)
    let live = try await store.segmentStatistics().map(\.liveBytes)
    #expect(manifest.segments.map(\.liveBytes) == live)
    #expect(live.reduce(0, +) == 40 * 24)
    try await store.close()
  }

  /// Salvage and compaction may need the value.
  @Test(arguments: modes)
  func verifyingDecompressesDeadValues(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let value = [UInt8](repeating: 7, count: 300)
    let configuration = Store.Configuration.testing(ioMode: mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for _ in 0..<2 { try await store.set(value, forKey: "key") }
    }
    let segment = try #require(try directory.segments().first)
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.codec == .lz4 }
    ) { record, _ in record.store(UInt32(value.count - 1), at: RecordHeader.fixedLength) }
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.value(forKey: "key") == value)
    #expect(try await store.verify().problems.map(\.offset) == [UInt64(place)])
    try await store.close()
  }
}
