import BenchmarkSupport
import Foundation
import Moraine
import SystemPackage

/// The figures of `pattern`, in microseconds.
struct PatternFigures {
  let runs: Int
  private var pattern: [String: [Double]] = [:]
  private var moraine: [String: [Double]] = [:]

  init(runs: Int) { self.runs = runs }

  mutating func measurePattern(_ url: URL, _ count: Int) async throws {
    let users = (0..<count).map { BenchmarkUser($0) }
    let filled = try CopiedPattern<BenchmarkUser>(url: url)
    try await filled.save(contentsOf: users)
    for run in 0..<runs {
      pattern["save", default: []].append(
        try await time(1) { try await filled.save(BenchmarkUser(run)) })
    }
    for run in 0..<runs {
      let clock = ContinuousClock()
      let start = clock.now
      let opened = try CopiedPattern<BenchmarkUser>(url: url)
      try require(await opened.find(by: run)?.id == run, "find")
      let found = clock.now
      try require(await opened.loadAll().count == count, "loadAll")
      let loaded = clock.now
      try require(await opened.loadAll().count == count, "loadAll")
      pattern["open", default: []].append(start.microseconds(to: found))
      pattern["open and loadAll", default: []].append(start.microseconds(to: loaded))
      pattern["loadAll again", default: []].append(loaded.microseconds(to: clock.now))
      pattern["find, cached", default: []].append(try await find { await opened.find(by: $0) })
    }
  }

  mutating func measureRepository(_ folder: URL, _ count: Int) async throws {
    let filled = try LocalRepository<BenchmarkUser>(directory: folder, filename: "users")
    try await filled.save(contentsOf: (0..<count).map { BenchmarkUser($0) })
    for run in 0..<runs {
      let saves = 1_000
      moraine["save", default: []].append(
        try await time(saves) {
          for each in 0..<saves { try await filled.save(BenchmarkUser(run * saves + each)) }
        })
    }
    let path = FilePath(folder.appendingPathComponent("users.moraine").path)
    try await filled.keyspace.store.close()
    for run in 0..<runs {
      let clock = ContinuousClock()
      let start = clock.now
      let store = try Store(at: path)
      let opened = try LocalRepository<BenchmarkUser>(in: store, named: "")
      try require(try await opened.find(by: run)?.id == run, "find")
      let found = clock.now
      try require(try await opened.loadAll().count == count, "loadAll")
      let loaded = clock.now
      try require(try await opened.loadAll().count == count, "loadAll")
      moraine["open", default: []].append(start.microseconds(to: found))
      moraine["open and loadAll", default: []].append(start.microseconds(to: loaded))
      moraine["loadAll again", default: []].append(loaded.microseconds(to: clock.now))
      var streamed = 0
      moraine["models, all", default: []].append(
        try await time(1) { for try await _ in opened.models { streamed += 1 } })
      try require(streamed == count, "models")
      moraine["find, cached", default: []].append(
        try await find { try await opened.find(by: $0) })
      try await store.close()
    }
  }

  mutating func measurePersisted(_ folder: URL) async throws {
    let store = try PersistedStore(directory: folder)
    @Persisted("number", in: store) var number = 7
    @Persisted("text", in: store) var text = "some text that is longer than fifteen bytes"
    let count = 10_000
    for _ in 0..<runs {
      var sum = 0
      moraine["@Persisted get, Int", default: []].append(
        await slices(of: count) { for _ in 0..<count { sum &+= number } })
      try require(sum == 7 * count * 101, "number")
      moraine["@Persisted get, String", default: []].append(
        await slices(of: count) { for _ in 0..<count { sum &+= text.utf8.count } })
      moraine["@Persisted set, Int", default: []].append(
        await slices(of: count) { for each in 0..<count { number = each } })
      number = 7
    }
    try await $number.save()
    try await store.close()
  }

  /// Measures finds of a few models, so that they are in memory.
  private func find(_ body: (Int) async throws -> BenchmarkUser?) async throws -> Double {
    for id in 0..<100 { _ = try await body(id) }
    return try await slices(of: 10_000) {
      for each in 0..<10_000 { try require(try await body(each % 100) != nil, "find") }
    }
  }

  /// Returns the median of many short measurements. On a busy machine, most of them are
  /// undisturbed.
  private func slices(of count: Int, _ body: () async throws -> Void) async rethrows -> Double {
    var figures: [Double] = []
    for _ in 0..<101 { figures.append(try await time(count, body)) }
    return median(figures)
  }

  private func time(_ count: Int, _ body: () async throws -> Void) async rethrows -> Double {
    let clock = ContinuousClock()
    let start = clock.now
    try await body()
    return start.microseconds(to: clock.now) / Double(count)
  }

  private func require(_ condition: Bool, _ row: String) throws {
    if !condition { throw WrongAnswer(row: row) }
  }

  func print() {
    var grid = Grid(["", "pattern, µs", "Moraine, µs", "times faster"])
    for row in [
      "save", "open", "open and loadAll", "loadAll again", "models, all", "find, cached",
      "@Persisted get, Int", "@Persisted get, String", "@Persisted set, Int",
    ] {
      let (theirs, ours) = (pattern[row].map(median), moraine[row].map(median))
      grid.add(
        row,
        [
          theirs.map { decimal($0, 3) } ?? "", ours.map { decimal($0, 3) } ?? "",
          theirs.flatMap { theirs in ours.map { decimal(theirs / $0, 1) } } ?? "",
        ])
    }
    grid.print()
  }
}

extension ContinuousClock.Instant {
  fileprivate func microseconds(to other: Self) -> Double { duration(to: other).milliseconds * 1e3 }
}
