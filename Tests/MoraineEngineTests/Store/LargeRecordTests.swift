import Foundation
import MoraineEngine
import MoraineTesting
import Testing

/// Large records are written by calls into a mapped segment too.
@Suite struct LargeRecordTests {
  private static func value(_ number: UInt64, _ length: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: number)
    return (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
  }

  /// Around the length at which that begins, with small ones in between.
  private static let lengths = [65_000, 65_500, 65_536, 100, 70_001, 70_002, 70_003, 1, 1 << 20]

  @Test func theyAreReadBackAlsoByTheNextProcess() async throws {
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

  /// A batch is whole, whichever way its records went.
  @Test func aBatchOfBothKinds() async throws {
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

  /// The call may fail; the mapping takes the record all the same.
  @Test(arguments: [DiskFault.Effect.ioError, .short(lengthBytes: 30), .noSpace])
  func aCallThatFailsLosesNothing(effect: DiskFault.Effect) async throws {
    let disk = SimulatedDisk()
    // The first write is the segment's header.
    let fault = DiskFault(
      effect, on: [.write], file: "0000000001.segment", occurrence: 2, isForEver: true)
    let store = try disk.openStore(faults: [fault])
    let large = Self.value(1, 70_000)
    for number in 0..<3 { try await store.set(large, forKey: Key("\(number)"), durability: .sync) }
    for number in 0..<3 { #expect(try await store.value(forKey: Key("\(number)")) == large) }
    let next = try SimulatedDisk(disk.image(.nothing)).openStore()
    for number in 0..<3 { #expect(try await next.value(forKey: Key("\(number)")) == large) }
  }

  /// A power failure at each call, the record torn between its sectors.
  @Test func aCrashTearsNoneOfThem() async throws {
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
      let count = await store.count
      try #require(steps.contains(UInt64(count)))
      for number in 0..<count {
        let found = try await store.value(forKey: Key("\(number)"))
        try #require(found == Self.value(UInt64(number), lengths[number]))
      }
    }
  }

  private func check(_ store: Store) async throws {
    for (number, length) in Self.lengths.enumerated() {
      let found = try await store.value(forKey: Key("\(number)"))
      #expect(found == Self.value(UInt64(number), length))
    }
  }
}
