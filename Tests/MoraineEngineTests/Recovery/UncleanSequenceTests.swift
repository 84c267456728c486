import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A number that was acknowledged as durable, or that a reopened store has returned, is never given
/// to other contents, whatever a crash leaves (rule 8, P4).
@Suite struct UncleanSequenceTests {
  static let policies: [CrashPolicy] =
    [.nothing, .everything] + (0..<20).flatMap { [.pages(seed: $0), .sectors(seed: $0)] }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func numbersGoOnAfterEveryKindOfCrash(mode: Store.Configuration.IOMode) async throws {
    for policy in Self.policies {
      var disk = SimulatedDisk()
      var shown: [UInt64: Key] = [:]
      for life in 0..<4 {
        let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
        let store = try Store(on: disk, at: "store", configuration: configuration)
        // The records that this run reads first must still exist later.
        try await check(store, shown, "\(policy), life \(life)")
        shown = try await contents(store)
        let floor = try await store.lastSequence()
        for number in 0..<12 {
          let key = Key("\(life) \(number)")
          let isDurable = number % 4 == 1
          let sequence = try await store.set(
            [UInt8](repeating: UInt8(life), count: 40), forKey: key,
            durability: isDurable ? .sync : nil)
          #expect(sequence > floor)
          #expect(shown[sequence.rawValue] == nil, "\(policy), life \(life)")
          if isDurable { shown = try await contents(store) }
        }
        let image = SimulatedDisk(disk.image(policy))
        try await store.close()
        disk = image
      }
    }
  }

  private func contents(_ store: Store) async throws -> [UInt64: Key] {
    let result = Mutex<[UInt64: Key]>([:])
    try await store.scan { entry in
      result.withLock { $0[entry.sequence.rawValue] = entry.key }
      return true
    }
    return result.withLock { $0 }
  }

  private func check(_ store: Store, _ shown: [UInt64: Key], _ place: String) async throws {
    let now = try await contents(store)
    for (sequence, key) in shown { #expect(now[sequence] == key, "\(place), \(sequence)") }
  }

  /// Everything was deleted, then the process was killed: only the log holds the numbers.
  @Test(arguments: policies)
  func anEmptyStoreRemembersItsNumbers(_ policy: CrashPolicy) async throws {
    var disk = SimulatedDisk()
    var last = SequenceNumber.none
    for _ in 0..<3 {
      let store = try Store(on: disk, at: "store", configuration: .testing())
      #expect(try await store.count() == 0)
      #expect(try await store.set([1], forKey: "a") > last)
      last = try #require(try await store.removeValue(forKey: "a", durability: .sync))
      let image = SimulatedDisk(disk.image(policy))
      try await store.close()
      disk = image
    }
    #expect(last.rawValue == 6)
  }
}
