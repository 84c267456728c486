import MoraineEngine
import MoraineStorage
import SystemPackage

/// Performs a scenario's steps while a fault strikes one call, and compares everything that can be
/// read with what the store acknowledged.
///
/// Not thread-safe: one task uses a run.
final class FaultRun {
  let scenario: CrashScenario
  let injector: FaultInjector
  private var disk: SimulatedDisk
  private var storage: FaultStorage
  private var store: Store?
  private var life = 0
  var possible = PossibleStates()
  var wasPoisoned = false
  private var writes = CallsSinceStrike()
  private var reads = CallsSinceStrike()

  init(_ scenario: CrashScenario, _ faults: [PlannedFault]) {
    self.scenario = scenario
    injector = FaultInjector(faults)
    disk = SimulatedDisk(capacityBytes: scenario.capacityBytes)
    storage = FaultStorage(disk)
  }

  /// - Throws: ``StepFailure`` with what broke a promise.
  func run(_ steps: [WorkloadStep]) async throws {
    storage.setScript(injector.script(life: life))
    try await open()
    var strikeCount = 0
    for step in steps {
      try await perform(step)
      if let store {
        do throws(StoreError) { try await store.waitUntilIdle() } catch { try judge(error) }
        try checkPoison(of: store)
      }
      // Power also fails right after a strike: a later write might repair what the fault damaged.
      if injector.strikeCount > strikeCount {
        strikeCount = injector.strikeCount
        try await fail()
      }
    }
    try await fail()
    try await endLife(orderly: false)
    try await settle()
  }

  /// The contents of the disk, for the artifacts of a violation.
  var image: DiskImage { disk.image(.everything) }

  /// Opens the store. After one fault the second attempt must succeed, unless the fault lasts;
  /// after two faults, the third.
  private func open() async throws {
    let faults = injector.faults
    let last = max(1, faults.count)
    for attempt in 0...last {
      do throws(StoreError) {
        store = try Store(on: storage, at: "store", configuration: scenario.configuration)
        wasPoisoned = false
        break
      } catch {
        try judge(error)
        if attempt == last, !faults.contains(where: \.isPermanent) {
          throw StepFailure("attempt \(attempt + 1) to open: \(error)")
        }
      }
    }
    try await see()
  }

  /// Compares the contents of a store that was just opened.
  private func see() async throws {
    guard let store else { return }
    // A fault that strikes briefly explains two reads that fail; see `checkRead`.
    for _ in 0...(strikesBriefly ? 2 * injector.faults.count : 1) {
      let strikeCount = injector.strikeCount
      countRead(after: strikeCount)
      do {
        let state = try await store.contents()
        if possible.saw(state) {
          // An opened store keeps what it shows, even after a power failure.
          possible.becameDurable()
          return
        }
        let difference = StateDifference(state, possible.states[0])
        throw StepFailure("in life \(life) it holds \(difference)")
      } catch let error as StoreError {
        try judge(error)
        try checkRead(error, strikeCount)
      }
    }
  }

  private func endLife(orderly: Bool) async throws {
    if orderly, let store {
      var hasClosed = false
      try await attempt(on: store) { () throws(StoreError) in
        try await store.close()
        hasClosed = true
      }
      // Only a close that succeeds makes writes durable. A poisoned store closes without an error,
      // but makes nothing durable.
      if hasClosed, !wasPoisoned { possible.becameDurable() }
    }
    let before = storage
    disk.setObserver(nil)
    if !orderly {
      disk = SimulatedDisk(disk.moment(), capacityBytes: scenario.capacityBytes)
    }
    if let store {
      before.setScript(nil)
      do throws(StoreError) { try await store.close() } catch {
        if error.code != .poisoned, !wasPoisoned, error.code != .noSpace { throw error }
      }
    }
    store = nil
    life += 1
    storage = FaultStorage(disk)
    storage.setScript(injector.script(life: life))
  }

  private func perform(_ step: WorkloadStep) async throws {
    switch step {
    case .reopen, .kill:
      try await endLife(orderly: step == .reopen)
      try await open()
    default:
      guard let store else { return }
      try await perform(step, on: store)
    }
  }

  /// Opens what a power failure at this moment may leave, and compares the contents.
  private func fail() async throws {
    let moment = disk.moment()
    for policy in [CrashPolicy.nothing, .pages(seed: 1), .sectors(seed: 2)] {
      let after = SimulatedDisk(moment.image(policy), capacityBytes: scenario.capacityBytes)
      let store = try after.openStore(configuration: scenario.configuration)
      let state = try await store.contents()
      guard possible.allowsAfterPowerFailure(state) else {
        let difference = StateDifference(state, possible.states[0])
        throw StepFailure("after a power failure, when \(policy): it holds \(difference)")
      }
      try await store.close()
    }
  }

  /// Opens the store without faults, writes to it, closes it, and opens it again.
  private func settle() async throws {
    storage.setScript(nil)
    store = nil
    let store = try disk.openStore(configuration: scenario.configuration)
    var state = try await store.contents()
    guard possible.saw(state) else {
      throw StepFailure("in the end it holds \(StateDifference(state, possible.states[0]))")
    }
    let report = try await store.verify()
    guard report.isSound else { throw StepFailure("in the end, verify finds \(report.problems)") }
    do throws(StoreError) {
      try await store.set([9], forKey: "after", durability: .sync)
      state["after"] = [9]
    } catch {
      guard error.code == .noSpace, scenario.capacityBytes < .max else { throw error }
    }
    try await store.close()
    let again = try disk.openStore(configuration: scenario.configuration)
    let found = try await again.contents()
    try await again.close()
    guard found == state else {
      throw StepFailure("written to and opened again, it holds \(StateDifference(found, state))")
    }
  }
}

extension FaultRun {
  func perform(_ step: WorkloadStep, on store: Store) async throws {
    switch step {
    case .write(let unit, let isDurable): try await write(unit, isDurable, on: store)
    case .concurrently(let operations):
      for operation in operations { try await write([operation], true, on: store) }
    case .sync:
      try await attempt(on: store) { () throws(StoreError) in
        try await store.sync()
        possible.becameDurable()
      }
    case .compact:
      try await attempt(on: store) { () throws(StoreError) in _ = try await store.compact() }
    case .compactSegments(let range):
      try await attempt(on: store) { () throws(StoreError) in
        try await store.compact(segments: range)
      }
    case .verify: try await verify(store)
    case .snapshot: try await readSnapshot(of: store)
    case .reopen, .kill: break
    }
  }

  private func write(
    _ unit: [WorkloadOperation], _ isDurable: Bool, on store: Store
  ) async throws {
    let strikeCount = injector.strikeCount
    countWrite(after: strikeCount)
    do {
      try await store.perform(unit, isDurable ? .sync : nil)
      let isSynced = isDurable || scenario.configuration.durability == .sync
      possible.acknowledged(unit, isDurable: isSynced)
    } catch let error as StoreError {
      try judge(error)
      try checkPoison(of: store)
      let isPoisoned = store.poison != nil
      if !isPoisoned { try checkRefusal(error, strikeCount) }
      if isPoisoned, !wasPoisoned { possible.maybe(unit) }
      wasPoisoned = isPoisoned
    }
    for operation in unit { try await lookUp(operation.key, in: store) }
  }

  /// Reads a key. It has a value that was possible; otherwise the read throws.
  private func lookUp(_ key: Key, in store: Store) async throws {
    let strikeCount = injector.strikeCount
    countRead(after: strikeCount)
    do throws(StoreError) {
      let value = try await store.keyspace(of: key).value(forKey: key)
      if !possible.allows(value, for: key) {
        throw StoreError(.corrupted, "\(key) has a value that it never had")
      }
    } catch {
      try judge(error)
      try checkRead(error, strikeCount)
    }
  }

  /// Takes a snapshot. It shows only values that were possible; otherwise the read throws.
  private func readSnapshot(of store: Store) async throws {
    let strikeCount = injector.strikeCount
    countRead(after: strikeCount)
    do {
      let found = try await store.snapshot().contents(of: [""] + store.keyspaceNames())
      for (key, value) in found where !possible.allows(value, for: key) {
        throw StoreError(.corrupted, "a snapshot has a value of \(key) that it never had")
      }
    } catch let error as StoreError {
      try judge(error)
      try checkRead(error, strikeCount)
    }
    wasPoisoned = store.poison != nil
  }

  func attempt(
    on store: Store, _ body: () async throws(StoreError) -> Void
  ) async throws {
    do throws(StoreError) { try await body() } catch { try judge(error) }
    try checkPoison(of: store)
    wasPoisoned = store.poison != nil
  }

  /// Checks that a verification finds nothing but what the faults explain.
  private func verify(_ store: Store) async throws {
    var problems: [StoreError] = []
    try await attempt(on: store) { () throws(StoreError) in
      problems = try await store.verify().problems
    }
    // A poisoned store may have stopped in the middle of a change: its files and its figures may
    // differ until it is opened again. In the end a newly opened store is verified.
    if store.poison != nil { return }
    for problem in problems { try judge(problem) }
  }

  /// Checks that an error has a type and names its cause.
  func judge(_ error: StoreError) throws {
    let isFull = scenario.capacityBytes < .max && error.code == .noSpace
    if isFull { return }
    guard injector.hasStruck else { throw StepFailure("without a fault: \(error)") }
    let causes = injector.effects.map(\.errno)
    guard [.io, .noSpace, .poisoned, .limitExceeded].contains(error.code),
      causes.contains(where: { $0 == error.errno })
    else { throw StepFailure("a fault of errno \(causes) becomes: \(error)") }
  }
}

/// The checks that one harmless failure has no lasting effect.
extension FaultRun {
  /// Whether every fault strikes one call and the disk is never full. Only then is it known which
  /// calls have failed: a fault that lasts also strikes the calls that take back what was begun.
  private var strikesBriefly: Bool {
    scenario.capacityBytes == .max && !injector.faults.contains(where: \.isPermanent)
  }

  /// Checks that only a failed call after which the contents of the disk are unknown poisons the
  /// store, and only in the life in which it failed.
  ///
  /// The engine also poisons when it cannot read: when the index that a compaction has rebuilt, or
  /// the trees of a forged checkpoint, cannot be built again. The laboratory damages no checkpoint,
  /// so both need more than two failures, and there is no exception for reads.
  func checkPoison(of store: Store) throws {
    guard strikesBriefly, let poison = store.poison else { return }
    let calls = injector.struckCalls.filter { $0.life == life }
    if calls.contains(where: { $0.operation.mayPoison }) { return }
    throw StepFailure("in life \(life), faults at \(calls) may not end all writing: \(poison)")
  }

  /// Counts a write that begins after a number of faults.
  func countWrite(after strikeCount: Int) { writes.begin(after: strikeCount) }

  /// Counts a read that begins after a number of faults.
  func countRead(after strikeCount: Int) { reads.begin(after: strikeCount) }

  /// Checks that a store which is not poisoned may refuse the write that was counted last.
  ///
  /// The write that a fault strikes may throw, and so may the first one after it: it may get the
  /// error of work that was begun earlier. The second one must succeed.
  func checkRefusal(_ error: StoreError, _ strikeCount: Int) throws {
    guard strikesBriefly, injector.strikeCount == strikeCount, writes.count > 1 else { return }
    throw StepFailure("write \(writes.count) after the last fault is refused: \(error)")
  }

  /// Checks that the read that was counted last may throw, as ``checkRefusal(_:_:)`` does for
  /// writes. There is no exception for a poisoned store: it goes on answering reads, and keeps no
  /// error for them.
  ///
  /// Verifications are not checked: they also report what earlier failures have left in the figures
  /// and files of the store.
  func checkRead(_ error: StoreError, _ strikeCount: Int) throws {
    guard strikesBriefly, injector.strikeCount == strikeCount, reads.count > 1 else { return }
    throw StepFailure("read \(reads.count) after the last fault fails: \(error)")
  }
}

/// Counts the calls of one kind that have begun since the last fault.
private struct CallsSinceStrike {
  private(set) var count = 0
  /// Number of faults before the last call began.
  private var strikesSeen = 0

  mutating func begin(after strikeCount: Int) {
    if strikeCount != strikesSeen { (strikesSeen, count) = (strikeCount, 0) }
    count += 1
  }
}

extension StorageEvent.Operation {
  /// Whether the contents of the disk are unknown after a failure of this call: a sync, because the
  /// kernel may have dropped the bytes; a rename, because either file may have the name; a
  /// truncation, because what it was to remove may remain.
  var mayPoison: Bool { isSync || self == .rename || self == .truncate }
}
