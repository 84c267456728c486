import Foundation
import Moraine
import SystemPackage

/// The measurements of `bench`, run one after the other.
struct BenchWork: Sendable {
  private static let batchCount = 1000

  let folder: String
  let data: BenchData
  let commitCount: Int
  let report: @Sendable (BenchRow) throws -> Void

  func run() async throws {
    try await fillInOrder()
    let store = try await open("random")
    try await measure("fillrandom", data.count) {
      for number in data.order { try await store.set(data.value(number), forKey: data.key(number)) }
    }
    try await measure("overwrite", data.count) {
      for number in data.order.reversed() {
        try await store.set(data.value(number, generation: 1), forKey: data.key(number))
      }
    }
    try await read(store)
    try await measure("deletehalf", (data.count + 1) / 2) {
      for number in stride(from: 0, to: data.count, by: 2) {
        try await store.removeValue(forKey: data.key(number))
      }
    }
    try await measure("compact", 1) { _ = try await store.compact() }
    try await store.close()
    var again: Store?
    try await measure("open, first get", 1) {
      again = try await open("random")
      // An odd number: the keys with even numbers are deleted.
      _ = try await again?.value(forKey: data.key(1))
    }
    try await again?.close()
    try await batches()
    for writers in [1, 16, 256] { try await commits(writers) }
    for row in try BenchCompression(count: data.count).run() { try report(row) }
  }

  private func fillInOrder() async throws {
    let store = try await open("order")
    try await measure("fillseq", data.count) {
      for number in 0..<data.count {
        try await store.set(data.value(number), forKey: data.key(number))
      }
    }
    try await store.close()
  }

  private func read(_ store: Store) async throws {
    try await measure("readrandom", data.count) {
      for number in data.order {
        try check(try await store.value(forKey: data.key(number)), number)
      }
    }
    let snapshot = try await store.snapshot()
    try await measure("readrandom, snapshot", data.count) {
      for number in data.order { try check(try snapshot.value(forKey: data.key(number)), number) }
    }
    try await measure("readmissing", data.count) {
      for number in data.order where try await store.contains(data.missingKey(number)) {
        throw Failure(code: 3, message: "a key that was never stored was found")
      }
    }
    var count = 0
    try await measure("readseq", data.count) {
      try snapshot.scan { _ in
        count += 1
        return true
      }
    }
    guard count == data.count else {
      throw Failure(code: 3, message: "\(count) keys instead of \(data.count)")
    }
  }

  private func check(_ value: [UInt8]?, _ number: Int) throws {
    guard value == data.value(number, generation: 1) else {
      throw Failure(code: 3, message: "key \(number) has another value than was stored")
    }
  }

  private func batches() async throws {
    let store = try await open("batches")
    try await measure("fillbatch1000", data.count) {
      for start in stride(from: 0, to: data.count, by: Self.batchCount) {
        try await store.write { batch in
          for number in data.order[start..<min(start + Self.batchCount, data.count)] {
            try batch.set(data.value(number), forKey: data.key(number))
          }
        }
      }
    }
    try await store.close()
  }

  private func commits(_ writers: Int) async throws {
    let store = try await open("commits \(writers)")
    let each = max(1, commitCount / writers)
    try await measure("fillsync x\(writers)", each * writers) {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<writers {
          group.addTask { [data] in
            for number in (writer * each)..<((writer + 1) * each) {
              try await store.set(
                data.value(number), forKey: data.key(number), durability: .sync)
            }
          }
        }
        try await group.waitForAll()
      }
    }
    try await store.close()
  }

  private func open(_ name: String) async throws -> Store {
    var configuration = Store.Configuration()
    configuration.durability = .none
    return try await Store.open(at: FilePath("\(folder)/\(name)"), configuration: configuration)
  }

  private func measure(_ name: String, _ count: Int, _ body: () async throws -> Void) async throws {
    let elapsed = try await ContinuousClock().measure { try await body() }
    try report(BenchRow(name: name, operationCount: count, elapsed: elapsed))
  }
}
