import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import Testing

/// Ordered keyspaces of a damaged store, and the large values in them.
@Suite struct SalvageKeyspaceTests {
  private static func isOrdered(_ store: Store) async throws -> [String: Bool] {
    let statistics = try await store.keyspaceStatistics()
    return Dictionary(uniqueKeysWithValues: statistics.map { ($0.name, $0.isOrdered) })
  }

  /// Regression: each keyspace of the new store was a hashed one, whose ranges are errors.
  @Test func orderedKeyspacesStayOrdered() async throws {
    let (directory, target) = (try TestDirectory(), try TestDirectory())
    let store = try Store(at: directory.path, configuration: .hashed())
    let (unnamed, ordered) = (
      try store.orderedKeyspace(named: ""), try store.orderedKeyspace(named: "a")
    )
    let hashed = try store.keyspace(named: "b")
    for number in 0..<4 {
      for keyspace in [ordered, hashed, unnamed] {
        try await keyspace.set([UInt8(number)], forKey: Key("\(number)"))
      }
    }
    try await ordered.removeValue(forKey: "3")
    #expect(try await Self.isOrdered(store) == ["": true, "a": true, "b": false])
    try await store.close()
    let segment = try #require(try directory.segments().first)
    let first = try #require(try segment.recordPlaces.first { $0.header.kind == .put })
    // The checksum of the record.
    try Forgery(directory: directory).overwrite(
      segment, at: first.offset + 4, [UInt8](repeating: 0, count: 4))
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.losses.count == 1, "\(report.losses)")
    let salvaged = try Store(at: target.path, configuration: .hashed())
    // Before any call that would order a keyspace.
    let snapshot = try await salvaged.snapshot()
    #expect(try snapshot.first()?.key == "0")
    #expect(try snapshot.keyspace(named: "a").first()?.key == "1")
    #expect(try snapshot.keyspace(named: "a").last()?.key == "2")
    #expect(try await Self.isOrdered(salvaged) == ["": true, "a": true, "b": false])
    #expect(try await salvaged.keyspace(named: "b").count() == 4)
    try await salvaged.close()
  }

  /// The log of a copy may have a key from before its keyspace became ordered.
  @Test(arguments: [false, true])
  func keyThatNoOrderedKeyspaceCanHoldIsALossUnlessItWasRemoved(isRemoved: Bool) async throws {
    let (directory, target) = (try TestDirectory(), try TestDirectory())
    let long = Key([UInt8](repeating: 7, count: StoreLimits.orderedKeyLengthBytes + 1))
    let store = try Store(at: directory.path, configuration: .hashed())
    let keyspace = try store.keyspace(named: "k")
    try await keyspace.set([1], forKey: long)
    if isRemoved { try await keyspace.removeValue(forKey: long) }
    try await keyspace.set([2], forKey: "a")
    try await store.close()
    try Forgery(directory: directory).changeManifestFields { manifest in
      for id in manifest.keyspaces.map(\.id) { manifest.order(id) }
    }
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.losses.flatMap(\.keys).map(\.key) == (isRemoved ? [] : [long]))
    #expect(report.count == 1)
    let salvaged = try Store(at: target.path, configuration: .hashed())
    #expect(try await salvaged.keyspace(named: "k").value(forKey: "a") == [2])
    #expect(try await Self.isOrdered(salvaged) == ["": false, "k": true])
    try await salvaged.close()
  }

  /// Regression: the claim of the pieces came back where only the record of its removal was lost,
  /// and the first writer an hour later removed the pieces of a whole value.
  @Test func aLargeValueWhoseClaimComesBackIsKept() async throws {
    let (directory, target) = (try TestDirectory(), try TestDirectory())
    let began: UInt64 = 1_700_000_000_000
    var configuration = Store.Configuration.hashed()
    configuration.clock = ManualClock(startingAt: began)
    let store = try Store(at: directory.path, configuration: configuration)
    let films = try store.largeValues(named: "films")
    let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 / 251) }
    var writer = try await films.writer(forKey: "whole")
    try await writer.append(bytes)
    try await writer.commit()
    // A value that is not completed keeps its claim.
    var unfinished = try await films.writer(forKey: "unfinished")
    try await unfinished.append([1])
    try await store.close()
    let segment = try #require(try directory.segments().first)
    let removal = try #require(
      try segment.recordPlaces.first { place in
        place.header.kind.effect == .removes && place.key.first == UInt8(ascii: "c")
      })
    // The checksum of the record.
    try Forgery(directory: directory).overwrite(
      segment, at: removal.offset + 4, [UInt8](repeating: 0, count: 4))
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.losses.count == 1, "\(report.losses)")
    configuration.clock = ManualClock(startingAt: began + 86_400_000)
    let salvaged = try Store(at: target.path, configuration: configuration)
    let values = try salvaged.largeValues(named: "films")
    #expect(try await values.removeUnfinished() == 1, "the value that was not completed")
    let value = try #require(try await values.value(forKey: "whole"))
    var read: [UInt8] = []
    for try await piece in value { read += piece }
    #expect(read == bytes)
    try await salvaged.close()
  }
}
