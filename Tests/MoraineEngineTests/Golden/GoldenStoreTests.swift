import Foundation
import MoraineEngine
import MoraineFormat
import SystemPackage
import Testing

/// A store that any earlier version wrote can be read and written.
@Suite(.timeLimit(.minutes(10))) struct GoldenStoreTests {
  static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  @Test(arguments: GoldenStore.all, modes)
  func goldenStoreIsReadAndWritten(
    golden: GoldenStore, mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try golden.copied()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1024, ioMode: mode)
    configuration.compaction = .manual
    var expected = golden.expected

    configuration.isReadOnly = true
    try await withStore(at: directory.path, configuration: configuration) { store in
      #expect(try await store.goldenContents() == expected)
      let report = try await store.verify()
      #expect(report.isSound, "\(report.problems)")
    }
    configuration.isReadOnly = false
    try await withStore(at: directory.path, configuration: configuration) { store in
      let report = await store.recoveryReport
      #expect(report.wasClean == (golden.history == nil))
      #expect(try await store.goldenContents() == expected)
      for number in 0..<20 {
        let key: Key = "written later \(number)"
        let sequence = try await store.set([UInt8(number)], forKey: key)
        #expect(expected.values.allSatisfy { $0.sequence < sequence.rawValue })
        expected[GoldenStore.Place(key: key)] = GoldenStore.Record(
          key: key.bytes, sequence: sequence.rawValue, value: [UInt8(number)])
      }
      for name in golden.keyspaces {
        let places = golden.expected.keys.filter { $0.keyspace == name }
        for place in places.sorted(by: { $0.key < $1.key }).prefix(3) {
          try await store.keyspace(named: name).removeValue(forKey: place.key)
          expected[place] = nil
        }
      }
      #expect(try await store.goldenContents() == expected)
    }
    try await withStore(at: directory.path, configuration: configuration) { store in
      #expect(try await store.goldenContents() == expected)
      try await store.compact()
      #expect(try await store.goldenContents() == expected)
    }
    try await withStore(at: directory.path, configuration: configuration) { store in
      #expect(try await store.goldenContents() == expected)
      #expect(try await store.goldenDifference(from: expected, keys: expected.keys) == nil)
      let report = try await store.verify()
      #expect(report.isSound, "\(report.problems)")
    }
  }

  /// Regression: no golden store had an entry that expires, so that no test would have shown that a
  /// later version reads another time from the bytes of an earlier one, and deletes the entries.
  @Test(arguments: GoldenStore.all, modes)
  func entriesOfAGoldenStoreExpireAtTheirTimes(
    golden: GoldenStore, mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try golden.copied()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1024, ioMode: mode)
    configuration.compaction = .manual
    for round in ["as it was left", "opened again", "compacted"] {
      try await withStore(at: directory.path, configuration: configuration) { store in
        for place in golden.expected.keys {
          let expiry = try await store.keyspace(named: place.keyspace).expiry(forKey: place.key)
          let expected = golden.expiries[place].map { Expiry.at(milliseconds: $0) } ?? .never
          #expect(expiry == expected, "\(place), \(round)")
        }
        if round == "opened again" { try await store.compact() }
      }
    }
  }

  /// The store with entries that expire has such records in its log, in a batch, in what compaction
  /// has written, and in a keyspace with a name, and it has an index checkpoint.
  @Test func version1HasAStoreWithEntriesThatExpire() throws {
    let golden = try #require(GoldenStore.all.first { $0.testDescription == "v1/expiring" })
    #expect(Set(golden.expiries.keys.map(\.keyspace)) == ["", "sessions"])
    #expect(golden.expiries.count > 20 && golden.expiries.count < golden.expected.count)
    #expect(golden.expiries.keys.allSatisfy { golden.expected[$0] != nil })
    #expect(golden.expiries[GoldenStore.Place(key: [0xd2])] == 0x0102_0304_0506_0708)
    // 2100-01-01.
    #expect(golden.expiries.values.allSatisfy { $0 >= 4_102_444_800_000 })
    let expiring = try golden.records().filter(\.hasExpiry)
    #expect(expiring.contains { $0.codec == .lz4 })
    #expect(expiring.contains { $0.keyspace != 0 })
    let moved = try golden.records(ofCompacted: true).count(where: \.hasExpiry)
    #expect(moved > 0 && moved < expiring.count)
    #expect(golden.files.keys.contains { $0.hasSuffix(".index") })
  }

  /// Each store contains the features that it is kept for.
  @Test func version1StoresHoldTheirFeatures() throws {
    let golden = Dictionary(
      uniqueKeysWithValues: GoldenStore.all.map { ($0.testDescription, $0) })
    #expect(
      Set(golden.keys).isSuperset(
        of: ["v1/plain", "v1/compacted", "v1/killed", "v1/ordered", "v1/expiring"]))
    let plain = try #require(golden["v1/plain"])
    let compacted = try #require(golden["v1/compacted"])
    let killed = try #require(golden["v1/killed"])
    #expect(plain.segments.count > 2)
    #expect(try plain.records().contains { $0.kind == .put && $0.codec == .lz4 })
    #expect(try plain.records().contains { $0.batch == .end })
    #expect(plain.expected[GoldenStore.Place(key: [])] != nil)
    #expect(compacted.files.keys.contains { $0.hasSuffix(".index") })
    #expect(try compacted.records().contains { $0.codec == .lz4Dictionary })
    #expect(try compacted.records(ofCompacted: true).contains { $0.kind == .delete })
    #expect(try killed.records().contains { $0.kind == .syncMark })
    #expect(killed.history?.end(of: killed.expected) == killed.history?.states.keys.max())
    #expect(!(try killed.manifest.isClean))
  }

  /// The store with ordered keyspaces has a tree with a branch, and a segment in key order.
  @Test func version1HasAStoreWithOrderedKeyspaces() throws {
    let golden = try #require(GoldenStore.all.first { $0.testDescription == "v1/ordered" })
    #expect(try golden.manifest.ordered.count == 2)
    #expect(try golden.manifest.segments.contains { $0.flags.contains(.clustered) })
    #expect(try golden.manifest.segments.contains { !$0.flags.contains(.compacted) })
    #expect(golden.keyspaces == ["", "plain", "users"])
    let name = try #require(golden.files.keys.first { $0.hasSuffix(".index") })
    let bytes = try #require(golden.files[name])
    #expect(bytes.load(UInt16.self, at: 8) == 2)
    let head = try bytes.withUnsafeBytes { bytes in
      let length = try CheckpointHeader.claimedLength(bytes)
      return try CheckpointHeader(decoding: UnsafeRawBufferPointer(rebasing: bytes[..<length]))
    }
    #expect(head.trees.map(\.height).max() == 1 && head.trees.count == 2)
  }
}

extension GoldenStore {
  /// The names of the keyspaces with records.
  var keyspaces: [String] { Set(expected.keys.map(\.keyspace)).sorted() }

  var segments: [String] { files.keys.filter { $0.hasSuffix(".segment") }.sorted() }

  var manifest: Manifest {
    get throws { try files[Manifest.fileName]!.withUnsafeBytes { try Manifest(decoding: $0) } }
  }

  /// Returns the headers of all records, or of those in segments that compaction wrote.
  func records(ofCompacted isCompacted: Bool = false) throws -> [RecordHeader] {
    try segments.flatMap { name in
      let bytes = files[name]!
      let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
      guard !isCompacted || header.flags.contains(.compacted) else { return [RecordHeader]() }
      return try Self.places(in: bytes).map(\.header)
    }
  }

  /// Returns the valid records of a segment, and the offset of each.
  static func places(in bytes: [UInt8]) throws -> [(offset: Int, header: RecordHeader)] {
    try bytes.withUnsafeBytes { bytes in
      let header = try SegmentHeader(decoding: bytes)
      var result: [(offset: Int, header: RecordHeader)] = []
      var place = header.headerLength
      while place + RecordHeader.fixedLength <= bytes.count {
        let base = bytes.baseAddress! + place
        let length = RecordHeader.length(at: base)
        guard length >= RecordHeader.fixedLength, place + length <= bytes.count,
          RecordHeader.checksum(
            of: base, length: length, at: UInt64(place), seed: header.checksumSeed)
            == RecordHeader.storedChecksum(at: base),
          let record = RecordHeader.parse(base, length: length)
        else { break }
        result.append((place, record))
        place += aligned(length)
      }
      return result
    }
  }
}
