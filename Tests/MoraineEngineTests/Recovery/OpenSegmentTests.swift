import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Two segments that the manifest lists as open, which a kill between two manifests leaves: the
/// first must be whole, and the second must continue its sequence.
@Suite struct OpenSegmentTests {
  private static func configuration(_ durability: Durability) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1000, durability: durability)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 0
    return configuration
  }

  /// - Returns: a store whose last two segments are whole and listed as open.
  private func store(
    _ durability: Durability, count: inout Int
  ) async throws -> (directory: TestDirectory, first: URL, second: URL) {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let store = try Store(
      on: storage, at: directory.path, configuration: Self.configuration(durability))
    // Once the first segment is sealed, a mark in the second may promise it.
    let gate = Gate()
    if durability == .none {
      storage.setScript { event in
        event.operation == .truncate && event.file == "0000000001.segment" ? .hang(gate) : nil
      }
    }
    while try await store.statistics().segmentCount < 2 {
      try await store.set([UInt8](0..<40), forKey: Key("key \(count)"))
      count += 1
    }
    for _ in 0..<3 {
      try await store.set([UInt8](0..<40), forKey: Key("key \(count)"))
      count += 1
    }
    gate.open()
    try await store.close()
    let segments = try directory.segments()
    try #require(segments.count == 2)
    try Forgery(directory: directory).changeManifestFields { manifest in
      for place in manifest.segments.indices { manifest.segments[place].flags = [] }
    }
    return (directory, segments[0], segments[1])
  }

  private func removeCheckpoint(_ directory: TestDirectory) throws {
    try FileManager.default.removeItem(at: CheckpointForgery(directory: directory).url())
  }

  /// - Returns: the end of the first segment without its footer.
  private func removeFooter(_ segment: URL) throws -> Int {
    let footer = try #require(try segment.recordPlaces.last)
    try #require(footer.header.kind == .footer)
    try Data(contentsOf: segment).prefix(footer.offset).write(to: segment)
    return footer.offset
  }

  /// - Returns: the error that every opening throws; no opening changes a file.
  private func refusal(_ directory: TestDirectory) throws -> StoreError? {
    let forgery = Forgery(directory: directory)
    let before = try forgery.contents()
    var refusal: StoreError?
    for isReadOnly in [true, false] {
      var configuration = Self.configuration(.none)
      configuration.isReadOnly = isReadOnly
      refusal = #expect(throws: StoreError.self) {
        try Store(at: directory.path, configuration: configuration)
      }
      let after = try forgery.contents()
      #expect(after.keys == before.keys)
      for (name, bytes) in before where name != "LOCK" { #expect(after[name] == bytes, "\(name)") }
    }
    return refusal
  }

  @Test func twoWholeOpenSegmentsAreReplayed() async throws {
    var count = 0
    let (directory, _, _) = try await store(.sync, count: &count)
    try removeCheckpoint(directory)
    let store = try Store(at: directory.path, configuration: Self.configuration(.none))
    #expect(try await store.count() == count)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func markPromisesThatThePreviousSegmentWasWhole() async throws {
    var count = 0
    let (directory, first, second) = try await store(.sync, count: &count)
    try removeCheckpoint(directory)
    try #require(try second.recordPlaces.contains { $0.header.kind == .syncMark })
    let end = try removeFooter(first)
    let error = try refusal(directory)
    #expect(error?.code == .corrupted)
    #expect(error?.file == first.lastPathComponent)
    #expect(error?.offset == UInt64(end))
    #expect(error?.message.contains(second.lastPathComponent) == true)
  }

  @Test func manifestWatermarkPromisesThatThePreviousSegmentWasWhole() async throws {
    var count = 0
    let (directory, first, second) = try await store(.none, count: &count)
    try removeCheckpoint(directory)
    let end = try removeFooter(first)
    try Forgery(directory: directory).changeManifestFields { manifest in
      manifest.watermarkSegment = 2
      manifest.watermarkOffset = UInt64(try second.header.headerLength)
    }
    let error = try refusal(directory)
    #expect(error?.code == .corrupted)
    #expect(error?.file == first.lastPathComponent)
    #expect(error?.offset == UInt64(end))
  }

  @Test func withoutAPromiseTheSecondSegmentIsTornOff() async throws {
    var count = 0
    let (directory, first, second) = try await store(.none, count: &count)
    try removeCheckpoint(directory)
    let kept = try first.recordPlaces.count { $0.header.kind == .put }
    try #require(kept < count)
    _ = try removeFooter(first)
    let store = try Store(at: directory.path, configuration: Self.configuration(.none))
    #expect(try await store.count() == kept)
    #expect(await store.recoveryReport.tornBytes > 0)
    #expect(!FileManager.default.fileExists(atPath: second.path))
    try await store.close()
  }

  @Test(arguments: ["number", "length", "last number"])
  func secondOpenSegmentMustFollowTheFirst(lie: String) async throws {
    var count = 0
    let (directory, _, second) = try await store(.none, count: &count)
    try removeCheckpoint(directory)
    try Forgery(directory: directory).changeHeader(of: second) { header in
      switch lie {
      case "number": header.predecessor.number += 1
      case "length": header.predecessor.lengthBytes += 4
      default: header.predecessor.lastSequence = SequenceNumber(rawValue: 1)
      }
    }
    let error = try refusal(directory)
    #expect(error?.code == .corrupted)
    #expect(error?.file == second.lastPathComponent)
    #expect(error?.offset == 48)
  }

  /// Makes the checkpoint cover these first segments as open ones, up to their ends.
  private func cover(_ segments: [URL], in directory: TestDirectory) throws {
    try CheckpointForgery(directory: directory).change { header, _ in
      for (place, url) in segments.enumerated() {
        let bytes = [UInt8](try Data(contentsOf: url))
        header.segments[place].endOffset = UInt64(bytes.count)
        let start = max(try url.header.headerLength, bytes.count - CheckpointHeader.tailLength)
        header.segments[place].tailChecksum = Checksum.of(Array(bytes[start...]))
      }
    }
  }

  /// Regression: a replay that began after a footer did not count it, and the segment after it was
  /// cut and removed.
  @Test func footerThatACheckpointCoversCounts() async throws {
    let closed = try TestDirectory()
    let configuration = Self.configuration(.none)
    try await withStore(at: closed.path, configuration: configuration) { store in
      for number in 0..<5 { try await store.set([UInt8](0..<40), forKey: Key("\(number)")) }
    }
    let writer = try Store(at: closed.path, configuration: configuration)
    for number in 5..<8 { try await writer.set([UInt8](0..<40), forKey: Key("\(number)")) }
    let killed = try TestDirectory()
    try FileManager.default.copyItem(at: closed.store, to: killed.store)
    try await writer.close()
    let segments = try killed.segments()
    try #require(segments.count == 2)
    try #require(try segments[0].recordPlaces.last?.header.kind == .footer)
    try cover([segments[0]], in: killed)
    try Forgery(directory: killed).changeManifestFields { manifest in
      for place in manifest.segments.indices { manifest.segments[place].flags = [] }
      (manifest.watermarkSegment, manifest.watermarkOffset) = (0, 0)
    }
    let store = try Store(at: killed.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(try await store.count() == 8)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// The checkpoint has a second segment, although the first one has no footer.
  @Test func checkpointThatCoversATornSegmentIsIgnored() async throws {
    var count = 0
    let (directory, first, second) = try await store(.none, count: &count)
    let kept = try first.recordPlaces.count { $0.header.kind == .put }
    try #require(kept < count)
    _ = try removeFooter(first)
    try cover([first, second], in: directory)
    let store = try Store(at: directory.path, configuration: Self.configuration(.none))
    let report = await store.recoveryReport
    #expect(!report.usedCheckpoint)
    #expect(report.checkpointProblem?.code == .corrupted)
    #expect(report.checkpointProblem?.file == "0000000002.index")
    #expect(report.checkpointProblem?.message.contains(second.lastPathComponent) == true)
    #expect(report.checkpointProblem?.message.contains("remove its *.index files") == true)
    #expect(try await store.count() == kept)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
