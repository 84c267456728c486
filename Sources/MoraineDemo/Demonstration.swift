import Foundation
import MoraineEngine
import Subprocess
import SystemPackage

struct Demonstration {
  let program: String
  let fallback: String
  let directory: String
  let records: [Record]
  let source: String

  private var path: FilePath { FilePath(directory) }
  private var inputBytes: Int { records.reduce(0) { $0 + $1.key.bytes.count + $1.value.count } }

  func run() async throws {
    print("\(records.count) records, \(megabytes(inputBytes)), from \(source)\n")
    let acknowledged = try await saveUntilKilled()
    print("1. \(Writer.taskCount) tasks saved durably, one record at a time; SIGKILL after")
    print("   \(acknowledged.count) acknowledged records\n")
    try await checkAfterKill(acknowledged)
    let model = try await goOn(acknowledged)
    try await reopen(model)
    print("The store holds all expected records, byte for byte.")
  }

  /// Runs the writer and kills it after it has acknowledged a random number of records.
  private func saveUntilKilled() async throws -> Set<Int> {
    let limit = Int.random(in: records.count / 10...records.count / 2)
    let result = try await Subprocess.run(
      .path(FilePath(program)), arguments: ["writer", fallback, directory], input: .none,
      output: .sequence, error: .discarded
    ) { execution in
      var acknowledged: Set<Int> = []
      var isKilled = false
      for try await line in execution.standardOutput.strings() {
        // A printed index was acknowledged. A write this short to a pipe is never cut.
        if let index = Int(line) { acknowledged.insert(index) }
        if !isKilled, acknowledged.count >= limit {
          try execution.send(signal: .kill)
          isKilled = true
        }
      }
      return acknowledged
    }
    guard !result.closureResult.isEmpty else { throw Wrong("the writer acknowledged nothing") }
    return result.closureResult
  }

  private func checkAfterKill(_ acknowledged: Set<Int>) async throws {
    let store = try await Store.open(at: path)
    let report = await store.recoveryReport
    print("2. Reopened in \(report.elapsedNanoseconds / 1_000_000) ms after the kill:")
    print("   stopped in order: \(report.wasClean), segments: \(report.segmentCount),")
    print("   records: \(report.recordCount), torn bytes cut: \(report.tornBytes),")
    print("   bytes not known to be durable, copied and synced: \(report.resyncedBytes)")
    for index in acknowledged {
      guard try await store.value(forKey: records[index].key) == records[index].value else {
        throw Wrong("record \(index) was acknowledged and is missing or changed")
      }
    }
    print("   all \(acknowledged.count) acknowledged records are present, byte for byte\n")
    try await store.close()
  }

  /// Saves the rest, overwrites some, deletes some.
  private func goOn(_ acknowledged: Set<Int>) async throws -> [Key: [UInt8]] {
    let store = try await Store.open(at: path)
    let rest = records.indices.filter { !acknowledged.contains($0) }
    let clock = ContinuousClock()
    let began = clock.now
    try await Writer.save(records, rest, to: store) { _ in }
    let seconds = (clock.now - began) / .seconds(1)
    var model: [Key: [UInt8]] = [:]
    for record in records { model[record.key] = record.value }
    for index in stride(from: 0, to: records.count, by: 10) {
      try await store.removeValue(forKey: records[index].key)
      model[records[index].key] = nil
    }
    for index in stride(from: 5, to: records.count, by: 10) {
      let value = Array(records[index].value.reversed())
      try await store.set(value, forKey: records[index].key)
      model[records[index].key] = value
    }
    try await store.close()
    print("3. Saved the other \(rest.count), \(Int(Double(rest.count) / seconds)) a second, each")
    print("   durable; deleted every tenth, overwrote every tenth\n")
    return model
  }

  private func reopen(_ model: [Key: [UInt8]]) async throws {
    let store = try await Store.open(at: path)
    let report = await store.recoveryReport
    let statistics = try await store.statistics()
    guard report.wasClean, statistics.count == model.count else {
      throw Wrong("\(statistics.count) keys, expected \(model.count)")
    }
    for (key, value) in model {
      guard try await store.value(forKey: key) == value else { throw Wrong("\(key) has changed") }
    }
    let verification = try await store.verify()
    guard verification.isSound else { throw Wrong("\(verification.problems)") }
    print("4. Reopened in \(report.elapsedNanoseconds / 1_000_000) ms and verified:")
    print("   \(statistics.count) records live, \(megabytes(Int(statistics.liveBytes))) of them;")
    print("   \(megabytes(Int(statistics.diskBytes))) on disk for \(megabytes(inputBytes)) saved,")
    print("   before any compaction\n")
    try await store.close()
  }

  private func megabytes(_ bytes: Int) -> String {
    String(format: "%.1f MB", Double(bytes) / 1e6)
  }
}
