import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Recovery does not trust the file cache for bytes that were never synced successfully, and does
/// not rewrite them in place: on ext4 a block whose first sync failed reads as zeros after a power
/// failure, whatever is written there later.
@Suite(.timeLimit(.minutes(10))) struct UnprovenTailTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let sharing: Store.Configuration.Sharing
    /// Whether the process dies after the failure instead of closing the store.
    let isKilled: Bool
    var testDescription: String { "\(mode), \(sharing), \(isKilled ? "killed" : "closed")" }

    var configuration: Store.Configuration {
      var configuration = Store.Configuration.testing(ioMode: mode)
      configuration.sharing = sharing
      return configuration
    }
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [Store.Configuration.Sharing.exclusive, .shared].flatMap { sharing in
      [false, true].map { Case(mode: mode, sharing: sharing, isKilled: $0) }
    }
  }

  /// Returns a value that begins with 1 and that a compressor cannot shorten.
  private static func value(lengthBytes: Int) -> [UInt8] {
    var random = SeededGenerator(seed: 1)
    return [1] + (1..<lengthBytes).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  /// - Returns: the disk after the first sync of the log failed and its process ended.
  private func diskAfterAFailedSync(
    _ item: Case, valueLengthBytes: Int = 1, on disk: SimulatedDisk = SimulatedDisk()
  ) async throws -> SimulatedDisk {
    // The first sync of the file is the sync of its header.
    let fault = DiskFault(.dropsUnsynced, on: [.sync], file: "0000000001.segment", occurrence: 2)
    let store = try disk.openStore(configuration: item.configuration, faults: [fault])
    try await store.set(Self.value(lengthBytes: valueLengthBytes), forKey: "a")
    await #expect(throws: StoreError.self) { try await store.sync() }
    let moment = disk.moment()
    try await store.close()
    return item.isKilled ? SimulatedDisk(moment) : disk
  }

  /// The disk has the first page from the sync of the header, and no other page: ext4 leaves those
  /// pages unwritten, whatever is written to them later.
  @Test(arguments: cases, [1, 20_000])
  func valueServedAfterAFailedSyncSurvivesAPowerFailure(
    _ item: Case, valueLengthBytes: Int
  ) async throws {
    let value = Self.value(lengthBytes: valueLengthBytes)
    let disk = try await diskAfterAFailedSync(item, valueLengthBytes: valueLengthBytes)
    let next = try disk.openStore(configuration: item.configuration)
    #expect(try await next.value(forKey: "a") == value, "the cache still holds the value")
    #expect(await next.recoveryReport.resyncedBytes > 0)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(
      configuration: item.configuration)
    #expect(try await after.value(forKey: "a") == value, "the value that was read survives")
    try await after.close()
    try await next.close()
  }

  /// A crash at each call of the recovery leaves the original, or the copy.
  @Test(arguments: cases)
  func everyCrashDuringTheCopyLeavesAStore(_ item: Case) async throws {
    let disk = try await diskAfterAFailedSync(item)
    let moments = Moments()
    disk.setObserver { [unowned disk] in moments.append(disk.moment()) }
    let next = try disk.openStore(configuration: item.configuration)
    disk.setObserver(nil)
    for moment in moments.all {
      for (policy, image) in moment.images(subsets: 20, torn: 2, seed: 1) {
        let store = try SimulatedDisk(image).openStore(configuration: item.configuration)
        let value = try await store.value(forKey: "a")
        #expect(value == [1] || value == nil, "\(policy)")
        #expect(try await store.verify().isSound)
        try await store.close()
        let names = try SimulatedDisk(image).openDirectory("store")?.entries().map(\.name) ?? []
        if names.contains("SEGMENT.tmp") {
          let cleaned = SimulatedDisk(image)
          let again = try cleaned.openStore(configuration: item.configuration)
          #expect(try cleaned.openDirectory("store")?.openFile("SEGMENT.tmp", .read) == nil)
          try await again.close()
        }
      }
    }
    #expect(moments.all.count > 8)
    try await next.close()
  }

  /// The disk has no space for a copy, and the medium does not have the bytes: only more space
  /// helps.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aFullDiskThatLostBytesIsNotOpened(mode: Store.Configuration.IOMode) async throws {
    let item = Case(mode: mode, sharing: .exclusive, isKilled: false)
    let disk = try await diskAfterAFailedSync(
      item, valueLengthBytes: 200_000, on: SimulatedDisk(capacityBytes: 1 << 20))
    try fill(disk)
    let error = #expect(throws: StoreError.self) {
      try disk.openStore(configuration: item.configuration)
    }
    #expect(error?.code == .noSpace)
    #expect(error?.description.contains("bytes") == true)
    try disk.openDirectory("store")?.remove("filler")
    let next = try disk.openStore(configuration: item.configuration)
    #expect(try await next.value(forKey: "a")?.count == 200_000)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(
      configuration: item.configuration)
    #expect(try await after.value(forKey: "a")?.count == 200_000)
    try await after.close()
    try await next.close()
  }

  /// The same beside a segment that was created ahead of need: the copy gets its space. A segment
  /// without a mapping has none.
  @Test func copyOfATailGetsTheSpaceOfTheSpareSegment() async throws {
    var configuration = Store.Configuration.testing(ioMode: .mapped, durability: .none)
    configuration.compaction = .manual
    configuration.spareFloorBytes = 0
    let first = SimulatedDisk(capacityBytes: 1 << 20)
    let fault = DiskFault(.dropsUnsynced, on: [.sync], file: "0000000001.segment", occurrence: 2)
    let dead = try first.openStore(configuration: configuration, faults: [fault])
    var random = SeededGenerator(seed: 1)
    var count = 0
    var more = 4
    // The segment is nearly full, so that the space allocated in it does not suffice for its copy.
    while more > 0 {
      let value = (0..<10_000).map { _ in UInt8.random(in: 0...255, using: &random) }
      try await dead.set(value, forKey: Key("\(count)"))
      count += 1
      try await dead.waitUntilIdle()
      if await dead.hasSpare { more -= 1 }
    }
    #expect(try await dead.statistics().segmentCount == 1)
    await #expect(throws: StoreError.self) { try await dead.sync() }
    let disk = SimulatedDisk(first.moment(), capacityBytes: 1 << 20)
    try await dead.close()
    try fill(disk)
    let next = try disk.openStore(configuration: configuration)
    #expect(await next.recoveryReport.resyncedBytes > 0)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    #expect(try await after.count() == count)
    try await after.close()
    try await next.close()
  }

  /// The same without a failed sync: the medium has all bytes, and the store opens.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aFullDiskThatHasTheBytesIsOpened(mode: Store.Configuration.IOMode) async throws {
    let configuration = Store.Configuration.testing(ioMode: mode)
    let first = SimulatedDisk(capacityBytes: 1 << 20)
    let dead = try first.openStore(configuration: configuration)
    try await dead.set([UInt8](0..<250), forKey: "a")
    for number in 0..<800 { try await dead.set([UInt8](0..<250), forKey: Key("\(number)")) }
    let disk = SimulatedDisk(first.moment(), capacityBytes: 1 << 20)
    try await dead.close()
    try fill(disk)
    let next = try disk.openStore(configuration: configuration)
    #expect(try await next.count() == 801)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    #expect(try await after.count() == 801)
    try await after.close()
    try await next.close()
  }

  /// Takes every block that is left.
  private func fill(_ disk: SimulatedDisk) throws {
    let directory = try #require(try disk.openDirectory("store"))
    let filler = try directory.createFile("filler")
    try filler.allocate(from: 0, to: try directory.freeBytes())
    #expect(try directory.freeBytes() < 4096)
    try filler.synchronize(.full)
    try directory.synchronize()
  }
}
