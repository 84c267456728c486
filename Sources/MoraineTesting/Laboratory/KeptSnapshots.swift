import MoraineEngine

/// The snapshots that a scenario keeps, each with the contents that it must show.
struct KeptSnapshots {
  /// The largest number of snapshots. One more releases the oldest, and the files that only it
  /// holds.
  private static let most = 3

  private struct Kept {
    let snapshot: Store.Snapshot
    let keyspaceNames: [String]
    let state: ModelStore.State
  }

  private var kept: [Kept] = []

  /// - Parameter state: the contents of the store at this moment.
  mutating func take(from store: Store, showing state: ModelStore.State) async throws {
    if kept.count == Self.most { kept.removeFirst() }
    kept.append(
      Kept(
        snapshot: try await store.snapshot(),
        keyspaceNames: [""] + (try await store.keyspaceNames()), state: state))
  }

  /// - Throws: ``StepFailure`` when a snapshot shows other contents, or when a lookup and a scan
  ///   give different values.
  func check() throws {
    for each in kept {
      let found = try each.snapshot.contents(of: each.keyspaceNames)
      guard found == each.state else {
        throw StepFailure(
          "the snapshot of \(each.snapshot.sequence) shows \(StateDifference(found, each.state))")
      }
      guard each.snapshot.count == found.count else {
        throw StepFailure("a snapshot counts \(each.snapshot.count) keys and has \(found.count)")
      }
    }
  }

  mutating func letGo() { kept = [] }
}

extension Store.Snapshot {
  /// The contents of the snapshot, found by a scan and compared with a lookup of each key.
  func contents(of keyspaceNames: [String]) throws -> ModelStore.State {
    var result: ModelStore.State = [:]
    for name in keyspaceNames {
      let part = keyspace(named: name)
      try part.scan { entry in
        guard try part.value(forKey: entry.key) == entry.value else {
          throw StepFailure("a snapshot has two values for \(entry.key)")
        }
        result[entry.key] = entry.value
        return true
      }
    }
    return result
  }
}
