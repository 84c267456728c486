import MoraineEngine

/// Measures reads of one snapshot: on one thread, on several threads, and of many keys at a time.
struct SnapshotReads: Sendable {
  let data: TestData
  let snapshot: Store.Snapshot

  init(_ data: TestData, _ store: Store) async throws {
    self.data = data
    snapshot = try await store.snapshot()
  }

  func run(into table: inout Table) async throws {
    for tasks in [1, 2] {
      try await table.time("get, snapshot, x\(tasks)", data.count) {
        try await withThrowingTaskGroup { group in
          for part in 0..<tasks { group.addTask { try read(part, of: tasks) } }
          try await group.waitForAll()
        }
      }
    }
    try await table.time("multi-get snapshot", data.count) {
      for start in stride(from: 0, to: data.count, by: 100) {
        let numbers = data.order[start..<min(start + 100, data.count)]
        let values = try snapshot.values(forKeys: numbers.map(data.key))
        for (number, value) in zip(numbers, values) { try check(value, number) }
      }
    }
    try await table.time("scan, snapshot", data.count) {
      var seen = 0
      try snapshot.scan { _ in
        seen += 1
        return true
      }
      guard seen == data.count else { throw WrongAnswer(row: "scan, snapshot") }
    }
  }

  private func read(_ part: Int, of tasks: Int) throws {
    let share = data.count / tasks
    let end = part == tasks - 1 ? data.count : (part + 1) * share
    for number in data.order[part * share..<end] {
      try check(try snapshot.value(forKey: data.key(number)), number)
    }
  }

  @inline(__always)
  private func check(_ value: [UInt8]?, _ number: Int) throws {
    guard value == data.value(number + 7) else { throw WrongAnswer(row: "snapshot") }
  }
}
