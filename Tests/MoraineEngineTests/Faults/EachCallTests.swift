import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A fault at every single call of a workload, once and permanently.
@Suite struct EachCallTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let errno: Errno
    let isPermanent: Bool
    /// The part of a write that is done before it fails.
    let partLengthBytes: Int
    var testDescription: String {
      "\(mode), \(errno), \(isPermanent ? "for ever" : "once"), \(partLengthBytes) bytes"
    }
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [(Errno.ioError, 0), (.noSpace, 30), (.tooManyOpenFiles, 0)].flatMap { errno, part in
      [false, true].map {
        Case(mode: mode, errno: errno, isPermanent: $0, partLengthBytes: part)
      }
    }
  }

  @Test(arguments: cases)
  func acknowledgedWritesSurviveAFailureOfAnyCall(_ item: Case) async throws {
    let total = try await run(item, failingAt: .max).callCount
    #expect(total > 60)
    for index in 0..<total {
      let outcome = try await run(item, failingAt: index)
      try await outcome.check("call \(index) of \(total): \(outcome.failedCall)")
    }
  }

  private func run(_ item: Case, failingAt index: Int) async throws -> Outcome {
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { event in
      guard event.index == index || (item.isPermanent && event.index > index) else { return nil }
      guard item.partLengthBytes > 0, [.write, .allocate].contains(event.operation) else {
        return .fail(item.errno)
      }
      return .partial(lengthBytes: item.partLengthBytes, item.errno)
    }
    var outcome = Outcome(storage: storage, mode: item.mode)
    await outcome.work()
    outcome.callCount = storage.trace.count
    outcome.failedCall = index < storage.trace.count ? "\(storage.trace[index])" : "none"
    return outcome
  }
}

/// The answers that a workload got, and the contents that are therefore possible afterwards.
private struct Outcome {
  let storage: FaultStorage
  let mode: Store.Configuration.IOMode
  var callCount = 0
  var failedCall = ""
  /// The possible values of each key: the acknowledged value, and those of attempts that threw.
  private var allowed: [Key: Set<[UInt8]?>] = [:]
  private var codes: Set<StoreError.Code> = []

  init(storage: FaultStorage, mode: Store.Configuration.IOMode) {
    self.storage = storage
    self.mode = mode
  }

  private func open() throws(StoreError) -> Store {
    try Store(
      on: storage, at: "store",
      configuration: .testing(segmentSizeBytes: 400, ioMode: mode))
  }

  mutating func work() async {
    do throws(StoreError) {
      let store = try open()
      for step in 0..<24 {
        await perform(step, on: store)
        if step % 9 == 8 { await compact(store) }
      }
      try await store.close()
    } catch {
      codes.insert(error.code)
    }
  }

  private mutating func compact(_ store: Store) async {
    do throws(StoreError) { _ = try await store.compact() } catch { codes.insert(error.code) }
  }

  private mutating func perform(_ step: Int, on store: Store) async {
    let key = Key("key \(step % 7)")
    let value = [UInt8](repeating: UInt8(step), count: 20 + step * 3)
    let isDelete = step % 5 == 4
    let isDurable = step % 3 == 0
    do throws(StoreError) {
      if isDelete {
        try await store.removeValue(forKey: key, durability: isDurable ? .sync : nil)
      } else {
        try await store.set(value, forKey: key, durability: isDurable ? .sync : nil)
      }
      allowed[key] = [isDelete ? nil : value]
    } catch {
      codes.insert(error.code)
      allowed[key, default: [nil]].insert(isDelete ? nil : value)
    }
  }

  /// Opens the store again, now without faults, twice, with a write in between.
  func check(_ what: String) async throws {
    storage.setScript(nil)
    let comment = Comment(rawValue: what)
    #expect(codes.isSubset(of: [.io, .noSpace, .poisoned, .limitExceeded]), comment)
    let store = try open()
    for (key, values) in allowed {
      let found = try await store.value(forKey: key)
      #expect(values.contains(found), comment)
    }
    #expect(try await store.verify().isSound, comment)
    try await store.set([1], forKey: "after")
    try await store.close()
    let again = try open()
    #expect(try await again.value(forKey: "after") == [1], comment)
    #expect(try await again.verify().isSound, comment)
    try await again.close()
  }
}
