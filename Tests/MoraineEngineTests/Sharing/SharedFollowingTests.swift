import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A process reads while others rotate, compact and leave, at the worst moments.
@Suite(.timeLimit(.minutes(5))) struct SharedFollowingTests {
  /// A manifest may list a segment before anybody was told how long it may become.
  @Test func aSegmentThatWasMappedWhenItWasShort() async throws {
    let directory = try TestDirectory()
    var configuration = Configuration.shared(segmentSizeBytes: 16 << 20)
    configuration.compaction = .manual
    let writer = try Store(at: directory.path, configuration: configuration)
    try await writer.set([0], forKey: "a")
    let reader = try Store(at: directory.path, configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [0])
    try await writer.sealForCompaction()
    try await writer.set([1], forKey: "b")
    try await reader.readTheManifestAlone()
    let random = (0..<65536).map { _ in UInt8.random(in: 0...255) }
    for number in 0..<100 { try await writer.set(random, forKey: Key("\(number)")) }
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "c")
    #expect(try await reader.value(forKey: "99") == random)
    #expect(try await reader.verify().isSound)
    for store in [writer, reader] { try await store.close() }
  }
}

extension Store {
  /// As one does who looks when another process has published the manifest and not the page yet.
  fileprivate func readTheManifestAlone() throws(StoreError) {
    #expect(try engine!.followManifest(SharedPage.Snapshot()))
  }
}
