import BenchmarkSupport
import CPeers
import Foundation
import GRDB
import Moraine
import MoraineEngine

/// Models with a unique index of one property and an index of another: the repository, GRDB with
/// the same indexes, SQLite in C with the same table, and a filter of the array of the
/// actor-repository pattern.
struct IndexedModels: Sendable {
  static let name = "indexed models"
  static let engines = ["moraine", "grdb", "sqlite", "pattern"]
  let count: Int

  init(_ size: Size) { count = size.modelCount }

  var rows: [Report.Row] {
    [
      row("indexed save", "one of them, into all; its indexed values change"),
      row("find by unique", "by its email"),
      row("range of 50", "50 models of a range of scores, sorted by the score"),
      row("count of a range", "of a tenth of the models"),
      row("observed change", "from a save to the new state of a query of all, sorted by score"),
    ]
  }

  private func row(_ name: String, _ meaning: String) -> Report.Row {
    Report.Row(
      name: name, group: Self.name, unit: "µs", durability: "none", meaning: meaning)
  }

  func run(_ engine: String, in folder: String, _ recorder: inout Recorder) async throws {
    switch engine {
    case "grdb": try await runGRDB(folder, &recorder)
    case "sqlite": try await runSQLite(folder, &recorder)
    case "pattern": try await runPattern(folder, &recorder)
    default: try await runMoraine(folder, &recorder)
    }
  }

  private func model(_ number: Int, round: Int = 0) -> BenchmarkUser {
    var user = BenchmarkUser(number)
    user.email = "\(number)-\(round)@example.org"
    user.score = Double((number &* 7919 &+ round &* 31) % count)
    return user
  }

  private func runMoraine(_ folder: String, _ recorder: inout Recorder) async throws {
    var configuration = Store.Configuration()
    configuration.durability = MoraineEngine.Durability.none
    let store = try Store(at: .init("\(folder)/models"), configuration: configuration)
    let users = try LocalRepository<BenchmarkUser>(
      in: store, named: "",
      indexes: [.unique("email", on: \.email), .index("score", on: \.score)])
    try await users.save(contentsOf: (0..<count).map { model($0) })
    try await users.buildIndexes()
    try await saves(&recorder) { try await users.save($0) }
    try await finds(&recorder) { try await users.find(\.email, $0) }
    try await ranges(&recorder) { low in
      try await users.query(where: \.score, in: low...).sorted(by: \.score).limit(50).fetch()
    }
    try await counts(&recorder) { range in
      try await users.query(where: \.score, in: range).count()
    }
    var updates = users.query().sorted(by: \.score).updates.makeAsyncIterator()
    _ = try await updates.next(isolation: nil)
    try await changes(2_000, &recorder) { user in
      try await users.save(user)
      return try await updates.next(isolation: nil)?.models.count ?? 0
    }
    try await store.close()
  }

  private func runPattern(_ folder: String, _ recorder: inout Recorder) async throws {
    let url = URL(fileURLWithPath: "\(folder)/data.json")
    let users = try CopiedPattern<BenchmarkUser>(url: url)
    try await users.save(contentsOf: (0..<count).map { model($0) })
    let saves = max(1, 300_000 / count)
    try await recorder.time("indexed save", saves) {
      for number in 0..<saves { try await users.save(model(number, round: 1)) }
    }
    let all = await users.loadAll()
    try await finds(&recorder) { email in all.first { $0.email == email } }
    try await ranges(&recorder) { low in
      Array(all.filter { $0.score >= low }.sorted { $0.score < $1.score }.prefix(50))
    }
    try await counts(&recorder) { range in all.count { range.contains($0.score) } }
  }

  private func runGRDB(_ folder: String, _ recorder: inout Recorder) async throws {
    var configuration = GRDB.Configuration()
    configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = OFF") }
    let pool = try DatabasePool(path: "\(folder)/models.sqlite", configuration: configuration)
    let models = (0..<count).map { model($0) }
    try await pool.write { database in
      try database.create(table: "benchmarkUser") { table in
        table.primaryKey("id", .integer)
        table.column("name", .text)
        table.column("email", .text).unique()
        table.column("score", .double).indexed()
        table.column("isActive", .boolean)
      }
      for model in models { try model.insert(database) }
    }
    try await saves(&recorder) { model in try await pool.write { try model.save($0) } }
    let (email, score) = (Column("email"), Column("score"))
    try await finds(&recorder) { text in
      try await pool.read { try BenchmarkUser.filter(email == text).fetchOne($0) }
    }
    try await ranges(&recorder) { low in
      try await pool.read {
        try BenchmarkUser.filter(score >= low).order(score).limit(50).fetchAll($0)
      }
    }
    try await counts(&recorder) { range in
      try await pool.read {
        try BenchmarkUser.filter(score >= range.lowerBound && score < range.upperBound)
          .fetchCount($0)
      }
    }
    let observation = ValueObservation.tracking { try BenchmarkUser.order(score).fetchAll($0) }
    var values = observation.values(in: pool, bufferingPolicy: .unbounded).makeAsyncIterator()
    _ = try await values.next()
    try await changes(5, &recorder) { user in
      try await pool.write { try user.save($0) }
      return try await values.next()?.count ?? 0
    }
    try pool.close()
  }

  private func runSQLite(_ folder: String, _ recorder: inout Recorder) async throws {
    let table = try ModelTable("\(folder)/models.sqlite")
    try table.batch { for number in 0..<count { try table.save(model(number)) } }
    try await saves(&recorder) { try table.save($0) }
    try await finds(&recorder) { try table.find($0) }
    try await ranges(&recorder) { try table.range(from: $0, limit: 50) }
    try await counts(&recorder) { try table.count($0) }
    try table.close()
  }

  private func saves(
    _ recorder: inout Recorder, _ save: (BenchmarkUser) async throws -> Void
  ) async throws {
    let some = count / 2
    // What the filling has left to be done belongs to it.
    for number in 0..<1_000 { try await save(model(number % some, round: 3)) }
    try await recorder.time("indexed save", 5_000) {
      for number in 0..<5_000 { try await save(model(number % some, round: 1)) }
    }
  }

  private func finds(
    _ recorder: inout Recorder, _ find: (String) async throws -> BenchmarkUser?
  ) async throws {
    let calls = min(1_000, count / 2)
    var isRight = true
    try await recorder.time("find by unique", calls) {
      for each in 0..<calls {
        let number = count - 1 - each
        if try await find(model(number).email)?.id != number { isRight = false }
      }
    }
    try recorder.check(isRight, "find by unique")
  }

  private func ranges(
    _ recorder: inout Recorder, _ fetch: (Double) async throws -> [BenchmarkUser]
  ) async throws {
    var isRight = true
    try await recorder.time("range of 50", 200) {
      for each in 0..<200 {
        let low = Double((each &* 4099) % (count / 2))
        let found = try await fetch(low)
        if found.count != 50 || found.contains(where: { $0.score < low }) { isRight = false }
      }
    }
    try recorder.check(isRight, "range of 50")
  }

  private func counts(
    _ recorder: inout Recorder, _ counted: (Range<Double>) async throws -> Int
  ) async throws {
    var least = Int.max
    try await recorder.time("count of a range", 100) {
      for each in 0..<100 {
        let low = Double((each &* 4099) % (count / 2))
        least = min(least, try await counted(low..<(low + Double(count / 10))))
      }
    }
    try recorder.check(least > count / 20, "count of a range")
  }

  private func changes(
    _ calls: Int, _ recorder: inout Recorder, _ change: (BenchmarkUser) async throws -> Int
  ) async throws {
    var isRight = true
    try await recorder.time("observed change", calls) {
      for each in 0..<calls where try await change(model(each, round: 2)) != count {
        isRight = false
      }
    }
    try recorder.check(isRight, "observed change")
  }
}
