import Foundation
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Large records are written by calls, also into a mapped segment.
@Suite struct LargeRecordTests {
  private static func value(_ number: UInt64, _ length: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: number)
    return (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
  }

  /// Lengths around the limit from which records count as large, with small ones in between.
  private static let lengths = [
    65_000, 65_500, 65_536, 100, 70_001, 70_002, 70_003, 1, 1 << 20, (3 << 19) + 1,
  ]

  @Test func largeRecordsAreReadBackAfterReopening() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    for (number, length) in Self.lengths.enumerated() {
      try await store.set(Self.value(UInt64(number), length), forKey: Key("\(number)"))
    }
    try await check(store)
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path)
    try await check(again)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// A batch is whole, however its records were written.
  @Test func batchOfLargeAndSmallRecordsIsReadBack() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore()
    try await store.write(durability: .sync) { batch in
      for (number, length) in Self.lengths.enumerated() {
        try batch.set(Self.value(UInt64(number), length), forKey: Key("\(number)"))
      }
    }
    try await check(store)
    try await check(try SimulatedDisk(disk.image(.nothing)).openStore())
  }

  /// The call may fail; the mapping then receives the record.
  @Test(arguments: [DiskFault.Effect.ioError, .short(lengthBytes: 30), .noSpace])
  func aCallThatFailsLosesNothing(effect: DiskFault.Effect) async throws {
    let disk = SimulatedDisk()
    // The first write is the segment's header.
    let fault = DiskFault(
      effect, on: [.write], file: "0000000001.segment", occurrence: 2, isPermanent: true)
    let store = try disk.openStore(faults: [fault])
    let large = Self.value(1, 70_000)
    for number in 0..<3 { try await store.set(large, forKey: Key("\(number)"), durability: .sync) }
    for number in 0..<3 { #expect(try await store.value(forKey: Key("\(number)")) == large) }
    let next = try SimulatedDisk(disk.image(.nothing)).openStore()
    for number in 0..<3 { #expect(try await next.value(forKey: Key("\(number)")) == large) }
  }

  /// The same for a record that is written to its file in parts: any part may fail.
  @Test(arguments: 2...4, [Store.Configuration.IOMode.mapped, .positional])
  func aPartThatFailsLosesNothing(occurrence: Int, mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(ioMode: mode)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "small")
    let large = Self.value(1, (3 << 19) + 1)
    let counter = CallCounter()
    storage.setScript { event in
      guard event.operation == .write, event.file.hasSuffix(".segment") else { return nil }
      return counter.next() + 1 == occurrence ? .fail(.ioError) : nil
    }
    let error = await failure { try await store.set(large, forKey: "large", durability: .sync) }
    storage.setScript(nil)
    // The mapping receives the part that the call has refused; without a mapping the put fails.
    if error == nil {
      #expect(try await store.value(forKey: "large") == large)
    } else {
      #expect(mode == .positional && error?.code == .io)
      #expect(try await store.value(forKey: "large") == nil)
    }
    try await store.set(large, forKey: "later", durability: .sync)
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.value(forKey: "later") == large)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Regression: each attempt to find space compressed the value again.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aLargeValueIsCompressedOnce(mode: Store.Configuration.IOMode) async throws {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 4 << 20, ioMode: mode)
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let settings = try store.keyspace(named: "settings")
    let text = (0..<300_000).flatMap { Array("\($0)".utf8) }
    var count = 0
    for number in 0..<4 {
      let value = number == 3 ? Self.value(3, 3 << 19) : text
      try await store.set(value, forKey: Key("\(number)"))
      try await settings.set(value, forKey: Key("\(number)"))
      try await store.write { try $0.set(value, forKey: Key("batch \(number)")) }
      count += 3
      #expect(await store.largeCompressionCount == count)
      #expect(try await store.value(forKey: Key("\(number)")) == value)
      #expect(try await settings.value(forKey: Key("\(number)")) == value)
      #expect(try await store.value(forKey: Key("batch \(number)")) == value)
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// The power fails at each call, and the record is torn between its sectors.
  @Test func crashTearsNoLargeRecord() async throws {
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (6, 4)
    let lengths = [70_000, 100, 66_000]
    try await experiment.run { disk, ledger in
      let store = try disk.openStore()
      for (number, length) in lengths.enumerated() {
        ledger.begin()
        let durability = number == 2 ? Durability.sync : .none
        try await store.set(
          Self.value(UInt64(number), length), forKey: Key("\(number)"), durability: durability)
        if number == 2 { ledger.becomeDurable() } else { ledger.acknowledge() }
      }
    } check: { disk, steps in
      let store = try disk.openStore()
      let count = try await store.count()
      try #require(steps.contains(UInt64(count)))
      for number in 0..<count {
        let found = try await store.value(forKey: Key("\(number)"))
        try #require(found == Self.value(UInt64(number), lengths[number]))
      }
    }
  }

  private func failure(_ body: () async throws -> Void) async -> StoreError? {
    do { try await body() } catch { return error as? StoreError }
    return nil
  }

  private func check(_ store: Store) async throws {
    for (number, length) in Self.lengths.enumerated() {
      let found = try await store.value(forKey: Key("\(number)"))
      #expect(found == Self.value(UInt64(number), length))
    }
  }
}

extension Store {
  fileprivate var largeCompressionCount: Int { engine?.largeCompressionCount ?? 0 }
}
