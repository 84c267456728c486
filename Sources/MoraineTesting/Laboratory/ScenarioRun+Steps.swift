import MoraineEngine

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
      // A full disk leaves nothing of it.
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
  /// Does one operation by itself, several as a batch.
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
