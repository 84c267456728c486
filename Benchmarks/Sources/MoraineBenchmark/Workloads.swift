import Foundation
import MoraineEngine
import SystemPackage

struct WrongAnswer: Error {
  let row: String
}

/// The rows. Each uses its own store, or the store that the row before has filled.
struct Workloads: Sendable {
  let data: TestData
  let folder: String

  func run(into table: inout Table) async throws {
    try await overhead(into: &table)
    try await sequential(into: &table)
    let store = try Store(at: path("random"), configuration: configuration(.none))
    try await writes(store, into: &table)
    try await reads(store, into: &table)
    try await SnapshotReads(data, store).run(into: &table)
    try await batches(store, into: &table)
    try await store.close()
    try await open(into: &table)
    for (tasks, each) in [(1, 2000), (16, 1000), (256, 200)] {
      try await durable(tasks, each, into: &table)
    }
  }

  private func path(_ name: String) -> FilePath { FilePath("\(folder)/\(name)") }

  private func configuration(_ durability: Durability) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.durability = durability
    return configuration
  }

  private func overhead(into table: inout Table) async throws {
    let nothing = EmptyActor()
    try await table.time("(empty actor)", data.count) {
      for number in data.order { await nothing.take(data.value(number), forKey: data.key(number)) }
    }
  }

  private func sequential(into table: inout Table) async throws {
    let store = try Store(at: path("sequential"), configuration: configuration(.none))
    try await table.time("fillseq", data.count) {
      for number in 0..<data.count {
        try await store.set(data.value(number), forKey: data.key(number))
      }
    }
    try await store.close()
    try FileManager.default.removeItem(atPath: path("sequential").string)
  }

  private func writes(_ store: Store, into table: inout Table) async throws {
    try await table.time("fillrandom", data.count) {
      for number in data.order {
        try await store.set(data.value(number), forKey: data.key(number))
      }
    }
    let filled = try await store.statistics()
    try await table.time("overwrite", data.count) {
      for number in data.order.reversed() {
        try await store.set(data.value(number + 7), forKey: data.key(number))
      }
    }
    table.add("disk after fill", Double(filled.diskBytes) / 1e6, unit: "MB")
    table.add("index", Double(filled.indexBytes) / Double(data.count), unit: "bytes a key")
  }

  private func reads(_ store: Store, into table: inout Table) async throws {
    try await table.time("readrandom", data.count) {
      for number in data.order {
        guard try await store.value(forKey: data.key(number)) == data.value(number + 7) else {
          throw WrongAnswer(row: "readrandom")
        }
      }
    }
    try await table.time("readmissing", data.count) {
      for number in data.order where try await store.contains(data.key(number + data.count)) {
        throw WrongAnswer(row: "readmissing")
      }
    }
    try await table.time("scan", data.count) {
      var seen = 0
      try await store.scan { _ in
        seen += 1
        return true
      }
      guard seen == data.count else { throw WrongAnswer(row: "scan") }
    }
  }

  private func batches(_ store: Store, into table: inout Table) async throws {
    try await table.time("fillbatch1000", data.count) {
      for start in stride(from: 0, to: data.count, by: 1000) {
        try await store.write { batch in
          for number in start..<min(start + 1000, data.count) {
            try batch.set(data.value(number), forKey: data.key(number))
          }
        }
      }
    }
  }

  /// Opens a log with three records for each key, of which two are overwritten.
  private func open(into table: inout Table) async throws {
    var opened: Store?
    try await table.time("open", 1) {
      opened = try Store(at: path("random"), configuration: configuration(.none))
    }
    guard try await opened?.count() == data.count else { throw WrongAnswer(row: "open") }
    try await opened?.close()
  }

  private func durable(_ tasks: Int, _ each: Int, into table: inout Table) async throws {
    let store = try Store(at: path("sync\(tasks)"), configuration: configuration(.sync))
    try await table.time("sync\(tasks)", tasks * each) {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<tasks {
          group.addTask {
            for number in task * each..<(task + 1) * each {
              try await store.set(data.value(number), forKey: data.key(number))
            }
          }
        }
        try await group.waitForAll()
      }
    }
    try await store.close()
  }
}

private actor EmptyActor {
  private var sum = 0
  func take(_ value: [UInt8], forKey key: Key) async { sum &+= key.bytes.count &+ value.count }
}
