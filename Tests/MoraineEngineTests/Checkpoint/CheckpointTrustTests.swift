import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import Testing

/// Checkpoints whose checksums are all right, and which nevertheless contradict the log. Each of
/// these tests was written because no test noticed a planted bug.
@Suite struct CheckpointTrustTests {
  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  /// Returns a store that was killed after a run with a checkpoint: nothing in its log vouches for
  /// the sums.
  private func killedStore() async throws -> TestDirectory {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: Self.configuration) { store in
      for number in 0..<100 { try await store.set([1], forKey: Key("\(number)")) }
    }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    try await store.set([2], forKey: "later")
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  private func forge(
    _ directory: TestDirectory, _ change: (inout CheckpointHeader) -> Void
  ) throws {
    let name = try #require(try directory.names().first { $0.hasSuffix(".index") })
    let url = directory.store.appendingPathComponent(name)
    var bytes = [UInt8](try Data(contentsOf: url))
    let length = try bytes.withUnsafeBytes { try CheckpointHeader.claimedLength($0) }
    var header = try Array(bytes[..<length]).withUnsafeBytes {
      try CheckpointHeader(decoding: $0)
    }
    change(&header)
    bytes.replaceSubrange(..<length, with: header.encoded())
    try Data(bytes).write(to: url)
  }

  private func expectDoneWithout(_ directory: TestDirectory) async throws {
    for number in 0..<2 {
      let store = try Store(at: directory.path, configuration: Self.configuration)
      if number == 0 {
        #expect(await store.recoveryReport.usedCheckpoint == false)
        #expect(await store.recoveryReport.checkpointProblem?.code == .corrupted)
      }
      #expect(try await store.count() == 101)
      #expect(try await store.verify().isSound)
      try await store.close()
    }
  }

  @Test func checkpointWithAWrongDigestIsIgnored() async throws {
    let directory = try await killedStore()
    try forge(directory) { $0.segments[0].digest.add(StateDigest.of(hash: 1, sequence: 1)) }
    try await expectDoneWithout(directory)
  }

  @Test func checkpointWithAnotherSaltOfASegmentIsIgnored() async throws {
    let directory = try await killedStore()
    try forge(directory) { $0.segments[0].salt ^= 1 }
    try await expectDoneWithout(directory)
  }

  /// The end of the log is not durable when a background checkpoint begins. The files that a power
  /// failure leaves at any moment must be consistent.
  @Test func backgroundCheckpointWaitsUntilTheLogIsDurable() async throws {
    var configuration = Self.configuration
    configuration.compaction = CompactionPolicy()
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: configuration)
    var checkpoints = 0
    for number in 0..<4000 where checkpoints < 20 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      let image = disk.image(.nothing)
      let names = image.directories["store"]?.keys.filter { $0.hasSuffix(".index") } ?? []
      guard !names.isEmpty else { continue }
      checkpoints += 1
      let after = try SimulatedDisk(image).openStore(configuration: configuration)
      let report = try await after.verify()
      #expect(report.isSound, "after \(number): \(report.problems)")
      // A checkpoint that covered more than the log would have been ignored.
      #expect(await after.recoveryReport.usedCheckpoint, "after \(number)")
      try await after.close()
    }
    #expect(checkpoints == 20)
    try await store.close()
  }
}
