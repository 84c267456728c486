import Foundation
import MoraineEngine
import SystemPackage

/// Many processes that write one store at the same time.
struct Crowd {
  let processes: Int
  let records: Int

  /// - Returns: records per second of all processes together.
  /// - Throws: `WrongAnswer` when a record is missing, or the records of a process are not in its
  ///   order.
  func moraine(_ path: FilePath) async throws -> Double {
    let store = try await Store.open(at: path, configuration: .sharedBenchmark)
    try await store.set([0], forKey: "begun")
    let rate = try time { index in
      try Child([
        "share-and-write", path.string, "--name", "\(index)", "--count", "\(records)",
      ])
    }
    var next = [Int](repeating: 0, count: processes)
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    for place in 0..<processes * records + 1 {
      guard let change = try await iterator.next() else { throw WrongAnswer(row: "\(place)") }
      let parts = change.key.description.split(separator: " ").compactMap { Int($0) }
      guard parts.count == 2 else { continue }
      guard next[parts[0]] == parts[1] else { throw WrongAnswer(row: "order of \(change.key)") }
      next[parts[0]] += 1
    }
    guard next.allSatisfy({ $0 == records }) else { throw WrongAnswer(row: "\(next)") }
    try await store.close()
    return rate
  }

  /// Measures the same with SQLite, through Python's module.
  func sqlite(_ path: FilePath) throws -> Double {
    let setUp = """
      import sqlite3, sys, time
      db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
      db.execute("pragma journal_mode=wal")
      db.execute("pragma synchronous=off")
      db.execute("create table if not exists t(k text primary key, v blob) without rowid")
      """
    let write = """
      sys.stdin.readline()
      for n in range(int(sys.argv[3])):
          db.execute("insert into t values(?,?)",
                     (f"{sys.argv[2]} {n}", str(time.monotonic_ns()).encode()))
      """
    let python = "/usr/bin/python3"
    let first = try Child(["-c", setUp, path.string], executable: python)
    try first.end()
    return try time { index in
      try Child(
        ["-c", setUp + "\n" + write, path.string, "\(index)", "\(records)"], executable: python)
    }
  }

  private func time(_ start: (Int) throws -> Child) throws -> Double {
    let children = try (0..<processes).map(start)
    // Gives the processes time to open the database.
    sleep(1)
    let before = Moment.now
    for child in children { try child.begin() }
    for child in children { try child.end() }
    let seconds = Double(Moment.now.nanoseconds - before.nanoseconds) / 1e9
    return Double(processes * records) / seconds
  }
}
