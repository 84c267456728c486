import MoraineEngine
import Synchronization
import SystemPackage

/// Performs a scenario's steps once on a simulated disk, and records crash points.
///
/// Not thread-safe: one task at a time uses a run. Background work of the store reaches only the
/// recorder.
final class ScenarioRun {
  let scenario: CrashScenario
  let ledger = CrashLedger()
  private let steps: [WorkloadStep]
  private let recorder: CrashRecorder
  /// Whether the directory of the store exists before the store opens, under a name that is not
  /// durable.
  private let isDirectoryMade: Bool
  private let watched = WatchedStore()
  private(set) var disk: SimulatedDisk
  private(set) var store: Store?
  var model = ModelStore()
  var snapshots = KeptSnapshots()

  init(
    _ scenario: CrashScenario, _ steps: [WorkloadStep],
    _ choice: CrashPointChoice = CrashPointChoice(), isDirectoryMade: Bool = false
  ) {
    self.scenario = scenario
    self.steps = steps
    self.isDirectoryMade = isDirectoryMade
    disk = SimulatedDisk(capacityBytes: scenario.capacityBytes, latency: scenario.latency)
    recorder = CrashRecorder(ledger, choice: choice) { [ledger, watched] in
      // The watermark is a promise too (P3).
      if let store = watched.store { ledger.becomeDurable(store.durableSequence.rawValue) }
    }
  }

  /// - Throws: an error of a step that must succeed, or ``StepFailure``.
  func run() async throws -> [CrashPoint] {
    omitSyncs()
    if isDirectoryMade { try disk.makeDirectory("store") }
    recorder.watch(disk)
    defer { disk.setObserver(nil) }
    try await open()
    for (number, step) in steps.enumerated() {
      recorder.beginStep(number)
      try await perform(step)
      if scenario.isSerial { try await store?.waitUntilIdle() }
      try snapshots.check()
      recorder.take(disk)
    }
    try await close()
    if let finding = disk.trespass(beside: "store") { throw StepFailure(finding) }
    return recorder.points
  }

  private func omitSyncs() {
    if let kind = scenario.omittedSyncs { disk.omitSyncs(of: kind) }
  }

  private func open() async throws {
    let opened = try disk.openStore(configuration: scenario.configuration)
    store = opened
    watched.store = opened
    let found = try await opened.contents()
    guard found == model.current else {
      throw StepFailure("opened again, it holds \(StateDifference(found, model.current))")
    }
  }

  private func close() async throws {
    defer { forget() }
    try await toleratingFullDisk { try await store?.close() }
  }

  private func forget() {
    watched.store = nil
    store = nil
  }

  func reopen() async throws {
    try await close()
    ledger.becomeDurable(model.lastSequence)
    // The snapshots of a closed store stay valid. When the store is opened again, files may be
    // removed.
    try snapshots.check()
    snapshots.letGo()
    try await open()
  }

  /// Ends the run without closing the store. Later calls of the old store change a disk that is not
  /// used any more.
  func kill() async throws {
    let moment = disk.moment()
    disk.setObserver(nil)
    let dead = store
    snapshots.letGo()
    forget()
    disk = SimulatedDisk(
      moment, capacityBytes: scenario.capacityBytes, latency: scenario.latency)
    omitSyncs()
    recorder.watch(disk)
    try await toleratingFullDisk { try await dead?.close() }
    try await open()
  }

  func toleratingFullDisk(_ body: () async throws -> Void) async throws {
    do { try await body() } catch let error as StoreError where error.code == .noSpace {
      guard scenario.capacityBytes < .max else { throw error }
    }
  }
}

/// The open store, for observers on other threads.
final class WatchedStore: Sendable {
  private let current = Mutex<Store?>(nil)

  var store: Store? {
    get { current.withLock { $0 } }
    set { current.withLock { $0 = newValue } }
  }
}

/// A step with a wrong result.
struct StepFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}

extension ScenarioRun {
  func perform(_ step: WorkloadStep) async throws {
    guard let store else { return }
    switch step {
    case .write(let operations, let isDurable):
      try await write(operations, isDurable, on: store)
    case .concurrently(let operations): try await writeAtOnce(operations, on: store)
    case .sync: ledger.becomeDurable(try await store.sync().rawValue)
    case .compact: try await toleratingFullDisk { _ = try await store.compact() }
    case .compactSegments(let range):
      try await toleratingFullDisk { try await store.compact(segments: range) }
    case .verify:
      let report = try await store.verify()
      guard report.isSound else { throw StepFailure("verify finds \(report.problems)") }
    case .snapshot: try await snapshots.take(from: store, showing: model.current)
    case .reopen: try await reopen()
    case .kill: try await kill()
    }
  }

  private func write(
    _ operations: [WorkloadOperation], _ isDurable: Bool, on store: Store
  ) async throws {
    ledger.begin()
    do {
      try await store.perform(operations, isDurable ? .sync : nil)
    } catch let error as StoreError where error.code == .noSpace {
      guard scenario.capacityBytes < .max else { throw error }
      // A full disk refuses the write as a whole.
      model.apply([], sequence: model.lastSequence)
      return
    }
    let sequence = try await store.lastSequence().rawValue
    model.apply(operations, sequence: sequence)
    if isDurable { ledger.becomeDurable(sequence) } else { ledger.acknowledge(sequence) }
  }

  private func writeAtOnce(_ operations: [WorkloadOperation], on store: Store) async throws {
    let ledger = ledger
    let done = try await withThrowingTaskGroup { group in
      for operation in operations {
        ledger.begin()
        group.addTask {
          let sequence = try await store.set(
            operation.value ?? [], forKey: operation.key, durability: .sync)
          ledger.becomeDurable(sequence.rawValue)
          return (sequence: sequence.rawValue, operation: operation)
        }
      }
      var done: [(sequence: UInt64, operation: WorkloadOperation)] = []
      for try await each in group { done.append(each) }
      return done
    }
    for (sequence, operation) in done.sorted(by: { $0.sequence < $1.sequence }) {
      model.apply([operation], sequence: sequence)
    }
  }
}

extension Store {
  /// Performs one operation alone, or several as a batch.
  func perform(_ operations: [WorkloadOperation], _ durability: Durability?) async throws {
    guard operations.count == 1, let only = operations.first else {
      let places = try operations.map { try keyspace(of: $0.key) }
      try await write(durability: durability) { batch in
        for (operation, keyspace) in zip(operations, places) {
          if let value = operation.value {
            try batch.set(value, forKey: operation.key, in: keyspace)
          } else {
            try batch.removeValue(forKey: operation.key, in: keyspace)
          }
        }
      }
      return
    }
    let target = try keyspace(of: only.key)
    if let value = only.value {
      try await target.set(value, forKey: only.key, durability: durability)
    } else {
      try await target.removeValue(forKey: only.key, durability: durability)
    }
  }
}
