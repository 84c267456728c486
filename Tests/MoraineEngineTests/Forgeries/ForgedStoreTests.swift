import Foundation
import MoraineEngine
import Testing

/// Files with right checksums and wrong contents.
@Suite struct ForgedStoreTests {
  struct Lie: Sendable, CustomTestStringConvertible {
    let name: String
    let expected: StoreError.Code
    let tell: @Sendable (Forgery) throws -> Void
    var testDescription: String { name }

    init(
      _ name: String, _ expected: StoreError.Code,
      _ tell: @escaping @Sendable (Forgery) throws -> Void
    ) {
      self.name = name
      self.expected = expected
      self.tell = tell
    }
  }

  static let newer: [Lie] = [
    Lie("manifest version 2", .newerFormat) { try $0.changeManifest { $0[8] = 2 } },
    Lie("manifest flag to be understood", .newerFormat) { try $0.changeManifest { $0[154] = 1 } },
    Lie("unknown section to be understood", .newerFormat) {
      try $0.changeManifest { bytes in
        bytes.store(UInt32(4), at: 156)
        bytes += [99, 0, 1, 0, 0, 0, 0, 0]
      }
    },
    Lie("segment version 2", .newerFormat) { try $0.changeHeader { $0[8] = 2 } },
    Lie("segment flag to be understood", .newerFormat) { try $0.changeHeader { $0[98] = 2 } },
    Lie("clustered segment that no compaction wrote", .corrupted) {
      try $0.changeHeader { $0[98] = 1 }
    },
    Lie("encrypted segment", .newerFormat) { try $0.changeHeader { $0[96] = 4 } },
    Lie("record of kind 9", .newerFormat) { try $0.changeFirstRecord { $0[15] = 9 } },
    Lie("record with an unknown flag", .newerFormat) { try $0.changeFirstRecord { $0[16] = 0x40 } },
    Lie("record extension to be understood", .newerFormat) {
      try $0.changeFirstRecord { $0[16] = 0x20 }
    },
  ]

  private static let feedHorizonAfterTheLog = Lie(
    "a feed horizon after the last operation", .corrupted
  ) { try $0.changeManifest { $0.store(UInt64(1) << 40, at: 96) } }

  /// Recovery counts on from the number of the last cut.
  private static let lastNumberOfACut = Lie("the last number of a cut", .limitExceeded) {
    try $0.changeManifest { bytes in
      bytes.store(bytes.load(UInt32.self, at: 156) + 1, at: 156)
      let start = bytes.count
      bytes += [4, 0, 0, 0, 24, 0, 0, 0]
      bytes += [UInt8](repeating: 0, count: 24)
      bytes.store(UInt64(Int64.max), at: start + 8)
    }
  }

  private static let liesAboutCuts = [feedHorizonAfterTheLog, lastNumberOfACut]

  static let hostile: [Lie] = [
    // Counting on from this number overflows.
    Lie("the last epoch", .corrupted) { try $0.changeManifest { $0.store(UInt64.max, at: 64) } },
    Lie("the last generation", .corrupted) {
      try $0.changeManifest { $0.store(UInt64.max, at: 72) }
    },
    Lie("the last segment number", .corrupted) {
      try $0.changeManifest { $0.store(UInt64.max, at: 88) }
    },
    feedHorizonAfterTheLog,
    Lie("record of 4 GiB", .corrupted) {
      try $0.changeFirstRecord { $0.store(UInt32.max, at: 0) }
    },
    Lie("record of 1 byte", .corrupted) { try $0.changeFirstRecord { $0.store(UInt32(1), at: 0) } },
    Lie("key of 16 MiB", .newerFormat) {
      try $0.changeFirstRecord { $0.store(UInt32(0xFFFF_FF00), at: 16) }
    },
    Lie("raw length of 4 GiB", .newerFormat) {
      try $0.changeFirstRecord { record in
        record[15] |= 0x10
        record.store(UInt32.max, at: 20)
      }
    },
    Lie("header of 4 GiB", .corrupted) { try $0.changeHeader { $0.store(UInt32.max, at: 12) } },
    Lie("dictionary of 4 GiB", .corrupted) {
      try $0.changeHeader { bytes in
        bytes[96] = 8
        bytes.store(UInt32.max, at: 100)
      }
    },
    Lie("section of 4 GiB", .corrupted) {
      try $0.changeManifest { $0.store(UInt32.max, at: 164) }
    },
    Lie("4 billion sections", .corrupted) {
      try $0.changeManifest { $0.store(UInt32.max, at: 156) }
    },
    Lie("segment of 16 EiB", .corrupted) {
      try $0.changeManifest { $0.store(UInt64.max, at: 176) }
    },
    Lie("sequence number 2^56 - 1 in a record", .corrupted) {
      try $0.changeFirstRecord { record in
        for place in 8..<15 { record[place] = 0xFF }
      }
    },
  ]

  /// Regression: opening wrote its process id before it had read the manifest.
  @Test func aNewerStoreKeepsItsLockFilesBytes() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    try Data("1\n".utf8).write(to: directory.store.appendingPathComponent("LOCK"))
    let forgery = Forgery(directory: directory)
    try forgery.changeManifest { $0[8] = 2 }
    let before = try forgery.contents()
    #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(try forgery.contents() == before)
  }

  @Test(arguments: newer + hostile)
  func everyForgeryIsATypedErrorAndChangesNothing(_ lie: Lie) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: .hashed()) { store in
      for number in 0..<4 { try await store.set([UInt8](0..<40), forKey: "key \(number)") }
    }
    let forgery = Forgery(directory: directory)
    try lie.tell(forgery)
    let before = try forgery.contents()
    for isReadOnly in [true, false] {
      var configuration = Store.Configuration.hashed()
      configuration.isReadOnly = isReadOnly
      do throws(StoreError) {
        _ = try Store(at: directory.path, configuration: configuration)
        Issue.record("the forgery was accepted")
      } catch {
        #expect(error.code == lie.expected, "\(error)")
        #expect(error.file != nil)
      }
      #expect(try forgery.contents() == before)
    }
  }

  /// The files that a killed process leaves: four records in an open segment.
  private static func killedStore() async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .hashed())
    for number in 0..<4 { try await store.set([UInt8](0..<40), forKey: "key \(number)") }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  /// Regression: a recovery added a cut of the log that no reader accepts, and the store was
  /// unreadable afterwards.
  @Test(arguments: liesAboutCuts)
  func recoveryPublishesNoManifestThatIsRefused(_ lie: Lie) async throws {
    let directory = try await Self.killedStore()
    let forgery = Forgery(directory: directory)
    try lie.tell(forgery)
    let before = try forgery.contents()["MANIFEST"]
    for _ in 0..<2 {
      do throws(StoreError) {
        let store = try Store(at: directory.path, configuration: .hashed())
        Issue.record("the forgery was accepted")
        try await store.close()
      } catch {
        #expect(error.code == lie.expected, "\(error)")
        #expect(error.file == "MANIFEST")
      }
      #expect(try forgery.contents()["MANIFEST"] == before)
    }
  }

  @Test func storeThatHasUsedUpTheNumbersOfCutsIsRead() async throws {
    let directory = try await Self.killedStore()
    try Self.lastNumberOfACut.tell(Forgery(directory: directory))
    #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: .hashed())
    }
    var configuration = Store.Configuration.hashed()
    configuration.isReadOnly = true
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.count() == 4)
    #expect(try await store.value(forKey: "key 3") == [UInt8](0..<40))
    try await store.close()
  }
}
