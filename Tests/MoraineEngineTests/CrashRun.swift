import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A disk as a crash left it, and what had been promised by then.
struct CrashImage: Sendable, CustomStringConvertible {
  let disk: SimulatedDisk
  let policy: CrashPolicy
  let point: Int
  /// How many steps must be there.
  let promised: Int
  var description: String { "crash \(point), \(policy), \(promised) promised" }
}

final class CrashRun: Sendable {
  private struct Ledger {
    var appended = 0
    var durable = 0
    var points = 0
    var images: [CrashImage] = []
    var failure: StorageError?
  }

  private typealias Operation = (key: Key, value: [UInt8]?)
  private let seed: UInt64
  private let configuration: Configuration
  private let ledger = Mutex(Ledger())
  /// The state after each number of steps.
  private let states = Mutex<[[Key: [UInt8]]]>([[:]])

  init(_ seed: UInt64, _ configuration: Configuration) {
    self.seed = seed
    self.configuration = configuration
  }

  /// - Returns: the images of all crashes.
  func work() async throws -> [CrashImage] {
    let disk = SimulatedDisk()
    disk.setObserver { [self, unowned disk] in capture(disk) }
    var random = SeededGenerator(seed: seed)
    for _ in 0..<3 {
      let store = try Store(on: disk, at: "store", configuration: configuration)
      for step in 0..<9 {
        try await perform(on: store, &random)
        if step % 4 == 3 { _ = try await store.compact() }
      }
      // The first life ends in order, the second with a kill, the third in order.
      if states.withLock({ $0.count }) % 2 == 1 { try await store.sync() }
      try await store.close()
      ledger.withLock { $0.durable = $0.appended }
    }
    disk.setObserver(nil)
    if let failure = ledger.withLock({ $0.failure }) { throw failure }
    return ledger.withLock { $0.images }
  }

  private func perform(on store: Store, _ random: inout SeededGenerator) async throws {
    let count = random.next() % 4 == 0 ? Int(random.next() % 4) + 2 : 1
    let operations = (0..<count).map { _ in operation(&random) }
    let isDurable = random.next() % 3 == 0
    note(operations)
    if count > 1 {
      try await store.write(durability: isDurable ? .sync : nil) { batch in
        for (key, value) in operations {
          if let value {
            try batch.set(value, forKey: key)
          } else {
            try batch.removeValue(forKey: key)
          }
        }
      }
    } else if let value = operations[0].value {
      try await store.set(value, forKey: operations[0].key, durability: isDurable ? .sync : nil)
    } else {
      try await store.removeValue(
        forKey: operations[0].key, durability: isDurable ? .sync : nil)
    }
    let total = states.withLock { $0.count - 1 }
    ledger.withLock { ledger in
      ledger.appended = total
      if isDurable { ledger.durable = total }
    }
  }

  private func operation(_ random: inout SeededGenerator) -> Operation {
    let key = Key("key \(random.next() % 9)")
    let isThere = states.withLock { $0.last?[key] != nil }
    if random.next() % 5 == 0, isThere { return (key, nil) }
    let length = Int(random.next() % 60) * (random.next() % 7 == 0 ? 30 : 1)
    return (key, (0..<length).map { _ in UInt8(truncatingIfNeeded: random.next()) })
  }

  /// A batch is one step: there is no state within it.
  private func note(_ operations: [Operation]) {
    states.withLock { states in
      var next = states[states.count - 1]
      for operation in operations { next[operation.key] = operation.value }
      states.append(next)
    }
  }

  private func capture(_ disk: SimulatedDisk) {
    // Before the bytes: what is promised now must be in them.
    let (point, durable, appended) = ledger.withLock { ledger in
      ledger.points += 1
      return (ledger.points, ledger.durable, ledger.appended)
    }
    let base = seed &* 1_000_003 &+ UInt64(point) &* 16
    let policies: [CrashPolicy] =
      [.nothing, .everything] + (0..<3).map { .pages(seed: base + $0) }
      + (3..<5).map { .sectors(seed: base + $0) }
    for policy in policies {
      do throws(StorageError) {
        let image = CrashImage(
          disk: try disk.image(policy), policy: policy, point: point,
          promised: policy == .everything ? appended : durable)
        ledger.withLock { $0.images.append(image) }
      } catch {
        ledger.withLock { $0.failure = error }
      }
    }
  }

  /// The images of crashes while an image is being recovered.
  func imagesOfRecovery(_ image: CrashImage) throws -> [CrashImage] {
    let images = Mutex<[CrashImage]>([])
    let failure = Mutex<StorageError?>(nil)
    let disk = try image.disk.image(.everything)
    disk.setObserver { [seed, unowned disk] in
      let point = images.withLock { $0.count }
      for policy in [CrashPolicy.nothing, .everything, .sectors(seed: seed &+ UInt64(point))] {
        do throws(StorageError) {
          let nested = CrashImage(
            disk: try disk.image(policy), policy: policy, point: point, promised: image.promised)
          images.withLock { $0.append(nested) }
        } catch {
          failure.withLock { $0 = error }
        }
      }
    }
    _ = try Store(on: disk, at: "store", configuration: configuration)
    disk.setObserver(nil)
    if let failure = failure.withLock({ $0 }) { throw failure }
    return images.withLock { $0 }
  }

  /// Opens an image, compares, writes, closes and opens again.
  func check(_ image: CrashImage, _ what: String) async throws {
    let comment = Comment(rawValue: what)
    let store: Store
    do throws(StoreError) {
      store = try Store(on: image.disk, at: "store", configuration: configuration)
    } catch {
      Issue.record("\(what): \(error)")
      return
    }
    let state = try await contents(of: store)
    let candidates = states.withLock { Array($0[image.promised...]) }
    #expect(candidates.contains(state), comment)
    try await store.set([9], forKey: "after", durability: .sync)
    try await store.close()
    let again = try Store(on: image.disk, at: "store", configuration: configuration)
    var expected = state
    expected["after"] = [9]
    #expect(try await contents(of: again) == expected, comment)
    try await again.close()
  }

  private func contents(of store: Store) async throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try await store.forEach { entry in
      result[entry.key] = entry.value
      return true
    }
    return result
  }
}
