import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// Index checkpoints that open without a problem, and prove wrong when they are used: a false entry
/// is an error, never a wrong answer. Without them the log has all answers.
@Suite(.timeLimit(.minutes(10))) struct ForgedIndexTests {
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.hashed(ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private func store(_ mode: Store.Configuration.IOMode, keys: Int) async throws -> TestDirectory {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration(mode)) { store in
      try await store.write { batch in
        for number in 0..<keys { try batch.set([1], forKey: Key("\(number)")) }
      }
    }
    return directory
  }

  private func check(
    _ directory: TestDirectory, keys: Int, _ mode: Store.Configuration.IOMode
  ) async throws {
    let store = try Store(at: directory.path, configuration: configuration(mode))
    #expect(try await store.count() == keys)
    for number in 0..<keys { #expect(try await store.value(forKey: Key("\(number)")) == [1]) }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// An entry can only name a record that the checkpoint covers.
  @Test(arguments: modes)
  func entryPastTheEndOfItsSegmentIsNotTrusted(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(mode, keys: 20)
    let beyond = UInt64(1) << 28 - 1
    try CheckpointForgery(directory: directory).change { header, bytes in
      for place in stride(from: header.lengthBytes, to: bytes.count, by: 8) {
        let entry = bytes.load(UInt64.self, at: place)
        if entry != 0 { bytes.store(entry | beyond, at: place) }
      }
    }
    let store = try Store(at: directory.path, configuration: configuration(mode))
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(try await store.value(forKey: "7") == [1])
    try await store.close()
    try await check(directory, keys: 20, mode)
  }

  /// Found by an independent reader. Regression: the recovery counted the newest record of a key as
  /// one that replaces itself. Its segment counted nothing live, and a compaction removed it.
  @Test(arguments: modes)
  func entryOfARecordAfterTheCheckpointLosesNothing(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try await store(mode, keys: 20)
    var configuration = configuration(mode)
    configuration.checkpointFloorBytes = .max
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([2], forKey: "7")
    }
    // After a compaction, the digests that were in the log before it are not compared.
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.compact(segments: 1..<2)
    }
    let manifestURL = directory.store.appendingPathComponent(Manifest.fileName)
    let manifest = try [UInt8](Data(contentsOf: manifestURL)).withUnsafeBytes {
      try Manifest(decoding: $0)
    }
    #expect(manifest.segments.count == 2)
    let hash = [UInt8("7".utf8.first!)].withUnsafeBytes {
      KeyHash.hash($0, keyspace: 0, with: manifest.hashKey)
    }
    // A segment's first record begins at 128, and the first records have 24 bytes each.
    let old = UInt64(128 + 7 * 24) >> 2
    let new = UInt64(1) << 28 | 128 >> 2
    try CheckpointForgery(directory: directory).change { header, bytes in
      let entries = stride(from: header.lengthBytes, to: bytes.count, by: 8)
      let place = try #require(
        entries.first { bytes.load(UInt64.self, at: $0) & (1 << 48 - 1) == old })
      let tag = bytes.load(UInt64.self, at: place) >> 48
      bytes.store(tag << 48 | new, at: place)
      let newest = manifest.lastSequence.rawValue
      header.segments[0].digest.remove(.of(hash: hash, sequence: 8))
      header.segments[0].digest.add(.of(hash: hash, sequence: newest))
      header.digest = header.segments[0].digest
    }
    let store = try Store(at: directory.path, configuration: configuration)
    // The figures of the first segment are wrong too, which its own compaction would find.
    try await store.compact(segments: 1..<2)
    #expect(try await store.value(forKey: "7") == [2])
    #expect(try await store.count() == 20)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// An index that cannot be trusted is rebuilt from the log, whatever number of keys it claims: a
  /// checkpoint is a copy of what the log says, and nothing else.
  @Test(arguments: modes)
  func aDamagedIndexWithAnotherNumberOfKeys(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(mode, keys: 5500)
    try CheckpointForgery(directory: directory).change { header, bytes in
      header.keyCount += 1
      try #require(header.overflowCount > 0)
      for bucket in 0..<Int(header.overflowCount) {
        bytes.store(linkingTo(bucket), at: header.overflowOffset + bucket * 64 + 56)
      }
    }
    let store = try Store(at: directory.path, configuration: configuration(mode))
    for number in 0..<5500 {
      #expect(try await store.value(forKey: Key("\(number)")) == [1], "\(number)")
    }
    #expect(try await store.count() == 5500)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Found by fuzzing. Regression: verifying called the store sound, and after a compaction the
  /// entry named a segment that was removed.
  @Test(arguments: modes)
  func entryOfNoRecordDoesNotOutliveItsSegment(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(mode, keys: 20)
    try CheckpointForgery(directory: directory).change { header, bytes in
      let slots = (0..<Int(header.bucketCount) * 8).map { header.lengthBytes + $0 * 8 }
      // The first record of a segment, under a hash that is not its key's.
      for place in slots.filter({ bytes.load(UInt64.self, at: $0) == 0 }).prefix(3) {
        bytes.store(UInt64(128 >> 2), at: place)
      }
    }
    let store = try Store(at: directory.path, configuration: configuration(mode))
    for number in 0..<10 { try await store.removeValue(forKey: Key("\(number)")) }
    try await store.compact()
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration(mode))
    #expect(try await again.count() == 10)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Makes a change that the checksums do not reveal.
  private func linkInCircles(_ directory: TestDirectory) throws {
    try CheckpointForgery(directory: directory).change { header, bytes in
      try #require(header.overflowCount > 0)
      for bucket in 0..<Int(header.overflowCount) {
        bytes.store(linkingTo(bucket), at: header.overflowOffset + bucket * 64 + 56)
      }
    }
  }

  /// Regression: the index cannot be rebuilt either then; verifying threw that error, and reported
  /// nothing.
  @Test(arguments: modes)
  func damagedLogBesideADamagedIndexIsReported(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 64 << 10, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    try await withStore(at: directory.path, configuration: configuration) { store in
      for batch in 0..<11 {
        try await store.write { operations in
          for number in 0..<500 {
            try operations.set([1], forKey: Key("\(batch * 500 + number)"))
          }
        }
      }
    }
    try linkInCircles(directory)
    try directory.store.appendingPathComponent("0000000001.segment").flip(at: 128 + 20)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint, "the damage has not been found yet")
    let report = try await store.verify()
    #expect(report.problems.map(\.file) == ["0000000001.segment"], "\(report.problems)")
    #expect(report.checkedBytes == 0, "no index existed to compare with")
    try await store.close()
  }

  /// Replay meets the damage, and begins again without the checkpoint.
  @Test(arguments: modes)
  func aDamagedIndexBesideALogThatWentOn(mode: Store.Configuration.IOMode) async throws {
    let first = try await store(mode, keys: 5500)
    let store = try Store(at: first.path, configuration: configuration(mode))
    for number in 0..<3000 { try await store.set([1], forKey: Key("\(number)")) }
    let killed = try TestDirectory()
    try FileManager.default.copyItem(at: first.store, to: killed.store)
    try await store.close()
    try linkInCircles(killed)
    let again = try Store(at: killed.path, configuration: configuration(mode))
    #expect(await again.recoveryReport.usedCheckpoint == false)
    #expect(await again.recoveryReport.checkpointProblem?.code == .corrupted)
    #expect(await again.recoveryReport.checkpointProblem?.file?.hasSuffix(".index") == true)
    try await again.close()
    try await check(killed, keys: 5500, mode)
  }

  /// The digests of checkpoint and manifest agree with each other, and not with the log.
  @Test(arguments: modes)
  func digestThatDiffersFromTheRecordsIsAnError(mode: Store.Configuration.IOMode) async throws {
    let directory = try await store(mode, keys: 20)
    let more = StateDigest.of(hash: 1, sequence: 1)
    try CheckpointForgery(directory: directory).change { header, _ in
      header.digest.add(more)
      header.segments[0].digest.add(more)
    }
    try Forgery(directory: directory).changeManifestFields { $0.digest.add(more) }
    let error = #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: configuration(mode))
    }
    #expect(error?.code == .corrupted)
    #expect(error?.file == Manifest.fileName)
    #expect(error?.message.contains("digest") == true)
  }

  private func linkingTo(_ bucket: Int) -> UInt64 { 0xFFFFF << 28 | UInt64(bucket) }
}
