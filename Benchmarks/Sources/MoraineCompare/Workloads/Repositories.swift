import BenchmarkSupport
import Foundation
import GRDB
import Moraine
import MoraineEngine

/// Models of an app: the repository, the actor-repository pattern, and GRDB.
struct Repositories: Sendable {
  static let name = "models"
  static let engines = ["moraine", "grdb", "pattern"]
  let count: Int

  init(_ size: Size) { count = size.modelCount }

  var rows: [Report.Row] {
    [
      row("model save", "one of them, into all", durability: "none"),
      row("model find", "by its id, already seen"),
      row("models, all", "open and load everything", unit: "ms"),
    ]
  }

  private func row(
    _ name: String, _ meaning: String, unit: String = "µs", durability: String? = nil
  ) -> Report.Row {
    Report.Row(
      name: name, group: Self.name, unit: unit, durability: durability, meaning: meaning)
  }

  static var engine: [Report.Engine] {
    [
      Report.Engine(
        name: "grdb", title: "GRDB", version: "7",
        settings: "DatabasePool, one record type that is Codable, one transaction a save"),
      Report.Engine(
        name: "pattern", title: "(pattern)", version: "",
        settings: "an actor, a dictionary, and one JSON file that each save rewrites"),
    ]
  }

  func run(_ engine: String, in folder: String, _ recorder: inout Recorder) async throws {
    switch engine {
    case "grdb": try await runGRDB(folder, &recorder)
    case "pattern": try await runPattern(folder, &recorder)
    default: try await runMoraine(folder, &recorder)
    }
  }

  private var models: [BenchmarkUser] { (0..<count).map { BenchmarkUser($0) } }

  private func runMoraine(_ folder: String, _ recorder: inout Recorder) async throws {
    var configuration = Store.Configuration()
    configuration.durability = MoraineEngine.Durability.none
    let store = try Store(
      at: .init("\(folder)/models"), configuration: configuration)
    let filled = try LocalRepository<BenchmarkUser>(in: store, named: "")
    try await filled.save(contentsOf: models)
    try await saves(1000, &recorder) { try await filled.save($0) }
    try await finds(&recorder) { try await filled.find(by: $0) }
    try await store.close()
    let count = count
    try await all(&recorder) {
      let store = try Store(at: .init("\(folder)/models"))
      let opened = try LocalRepository<BenchmarkUser>(in: store, named: "")
      let found = try await opened.loadAll().count
      try await store.close()
      return found == count
    }
  }

  private func runPattern(_ folder: String, _ recorder: inout Recorder) async throws {
    let url = URL(fileURLWithPath: "\(folder)/data.json")
    let filled = try CopiedPattern<BenchmarkUser>(url: url)
    try await filled.save(contentsOf: models)
    try await saves(3, &recorder) { try await filled.save($0) }
    try await finds(&recorder) { await filled.find(by: $0) }
    let count = count
    try await all(&recorder) {
      try await CopiedPattern<BenchmarkUser>(url: url).loadAll().count == count
    }
  }

  private func runGRDB(_ folder: String, _ recorder: inout Recorder) async throws {
    var configuration = GRDB.Configuration()
    configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = OFF") }
    let path = "\(folder)/models.sqlite"
    let filled = try DatabasePool(path: path, configuration: configuration)
    let models = models
    try await filled.write { database in
      try database.create(table: "benchmarkUser") { table in
        table.primaryKey("id", .integer)
        table.column("name", .text)
        table.column("email", .text)
        table.column("score", .double)
        table.column("isActive", .boolean)
      }
      for model in models { try model.insert(database) }
    }
    try await saves(1000, &recorder) { model in
      try await filled.write { try model.save($0) }
    }
    try await finds(&recorder) { id in
      try await filled.read { try BenchmarkUser.fetchOne($0, key: id) }
    }
    try filled.close()
    let (count, given) = (count, configuration)
    try await all(&recorder) {
      let opened = try DatabasePool(path: path, configuration: given)
      let found = try await opened.read { try BenchmarkUser.fetchAll($0).count }
      try opened.close()
      return found == count
    }
  }

  private func saves(
    _ count: Int, _ recorder: inout Recorder, _ save: (BenchmarkUser) async throws -> Void
  ) async throws {
    try await recorder.time("model save", count) {
      for number in 0..<count { try await save(BenchmarkUser(number % self.count)) }
    }
  }

  private func finds(
    _ recorder: inout Recorder, _ find: (Int) async throws -> BenchmarkUser?
  ) async throws {
    let few = min(100, count)
    for id in 0..<few { _ = try await find(id) }
    var isRight = true
    try await recorder.time("model find", 10_000) {
      for each in 0..<10_000 where try await find(each % few)?.id != each % few { isRight = false }
    }
    try recorder.check(isRight, "model find")
  }

  private func all(
    _ recorder: inout Recorder, _ load: () async throws -> Bool
  ) async throws {
    var isRight = false
    let elapsed = try await ContinuousClock().measure { isRight = try await load() }
    recorder.add("models, all", elapsed.milliseconds)
    try recorder.check(isRight, "models, all")
  }
}

extension BenchmarkUser: FetchableRecord, PersistableRecord {}
