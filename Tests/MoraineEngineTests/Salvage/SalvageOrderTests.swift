import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// Files with right checksums in which the order of segments, or of numbers, is false: salvage uses
/// the sequence numbers, and reports the operations that it could not order.
@Suite struct SalvageOrderTests {
  private static let keys = 0..<20

  private static func store() async throws -> TestDirectory {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 700)
    configuration.compaction = .manual
    try await withStore(at: directory.path, configuration: configuration) { store in
      for round in 0..<3 {
        for key in keys { try await store.set([UInt8(round)], forKey: Key("\(key)")) }
      }
      for key in keys where key % 4 == 0 { try await store.removeValue(forKey: Key("\(key)")) }
    }
    return directory
  }

  private static func salvage(
    _ directory: TestDirectory
  ) async throws -> (values: [Key: [UInt8]], report: SalvageReport) {
    let target = try TestDirectory()
    let report = try await Store.salvage(directory.path, to: target.path)
    let store = try Store(at: target.path)
    var values: [Key: [UInt8]] = [:]
    try await store.scan { entry in
      values[entry.key] = entry.value
      return true
    }
    try await store.close()
    return (values, report)
  }

  private static var expected: [Key: [UInt8]] {
    Dictionary(
      uniqueKeysWithValues: keys.filter { $0 % 4 != 0 }.map { (Key("\($0)"), [2]) })
  }

  @Test func segmentsListedInAnotherOrderAreRecoveredCompletely() async throws {
    let directory = try await Self.store()
    try Forgery(directory: directory).changeManifestFields { $0.segments.reverse() }
    let (values, report) = try await Self.salvage(directory)
    #expect(values == Self.expected)
    #expect(report.isComplete, "\(report.losses)")
  }

  /// The records after such a mark count as much as those before it.
  @Test func aMarkWithANumberFarAhead() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { store in
      for round in 0..<3 {
        for key in Self.keys { try await store.set([UInt8(round)], forKey: Key("\(key)")) }
        try await store.sync()
      }
      for key in Self.keys where key % 4 == 0 {
        try await store.removeValue(forKey: Key("\(key)"))
      }
    }
    let segment = try #require(try directory.segments().first)
    try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.header.kind == .syncMark }
    ) { record, _ in record[13] = 1 }
    let (values, report) = try await Self.salvage(directory)
    #expect(values == Self.expected)
    #expect(report.isComplete, "\(report.losses)")
  }

  @Test func recordsThatOnlyTheManifestCountsAreALoss() async throws {
    let directory = try await Self.store()
    try Forgery(directory: directory).changeManifestFields { $0.segments[0].recordCount += 1 }
    let (values, report) = try await Self.salvage(directory)
    #expect(values == Self.expected)
    #expect(report.losses.map(\.recordCount) == [1])
  }

  @Test func secondOperationWithTheSameNumberIsALoss() async throws {
    let directory = try await Self.store()
    let segments = try directory.segments()
    let first = try #require(try segments[0].recordPlaces.last { $0.header.kind == .put })
    let other = try #require(try segments[1].recordPlaces.first { $0.header.kind == .put })
    try Forgery(directory: directory).changeRecord(
      in: segments[1], where: { $0.offset == other.offset }
    ) { record, _ in record[8] = UInt8(truncatingIfNeeded: first.header.sequence) }
    try Forgery(directory: directory).changeManifestFields {
      $0.segments[1].firstSequence = SequenceNumber(rawValue: first.header.sequence)
    }
    let (_, report) = try await Self.salvage(directory)
    #expect(report.losses.count == 1)
    #expect(report.losses.first?.reason.contains("is not known") == true)
  }

  /// Its records may have been deleted since: the report names the segment, and the salvaged store
  /// does not contain it.
  @Test func intactUnlistedSegmentIsNamedAndNotUsed() async throws {
    let directory = try await Self.store()
    let name = try #require(try directory.segments().last).lastPathComponent
    var removed: Manifest.Segment?
    try Forgery(directory: directory).changeManifestFields { removed = $0.segments.removeLast() }
    let entry = try #require(removed)
    let (_, report) = try await Self.salvage(directory)
    let unlisted = try #require(report.unlistedSegments.first)
    #expect(report.unlistedSegments.count == 1 && report.ignoredFiles == [name])
    #expect(unlisted.file == name && unlisted.recordCount == entry.recordCount)
    #expect(unlisted.firstSequence == entry.firstSequence)
    #expect(unlisted.lastSequence == entry.lastSequence)
  }
}
