import MoraineEngine

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
    case .verify:
      try await attempt(on: store) { () throws(StoreError) in
        _ = try await store.verify()
      }
    case .snapshot: try await readSnapshot(of: store)
    case .reopen, .kill: break
    }
  }

  private func write(
    _ unit: [WorkloadOperation], _ isDurable: Bool, on store: Store
  ) async throws {
    do {
      try await store.perform(unit, isDurable ? .sync : nil)
      let isSynced = isDurable || scenario.configuration.durability == .sync
      possible.acknowledged(unit, isDurable: isSynced)
    } catch let error as StoreError {
      try judge(error)
      let isPoisoned = store.poison != nil
      if isPoisoned, !wasPoisoned { possible.maybe(unit) }
      wasPoisoned = isPoisoned
    }
    for operation in unit {
      do throws(StoreError) {
        let value = try await store.keyspace(of: operation.key).value(forKey: operation.key)
        if !possible.allows(value, for: operation.key) {
          throw StoreError(.corrupted, "\(operation.key) has a value that it never had")
        }
      } catch {
        try judge(error)
      }
    }
  }

  /// Whatever it shows was there at some time, or it says what went wrong.
  private func readSnapshot(of store: Store) async throws {
    do {
      let found = try await store.snapshot().contents(of: [""] + store.keyspaceNames())
      for (key, value) in found where !possible.allows(value, for: key) {
        throw StoreError(.corrupted, "a snapshot has a value of \(key) that it never had")
      }
    } catch let error as StoreError {
      try judge(error)
    }
    wasPoisoned = store.poison != nil
  }

  func attempt(
    on store: Store, _ body: () async throws(StoreError) -> Void
  ) async throws {
    do throws(StoreError) { try await body() } catch { try judge(error) }
    wasPoisoned = store.poison != nil
  }

  /// Every failure is typed, and names its cause.
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
