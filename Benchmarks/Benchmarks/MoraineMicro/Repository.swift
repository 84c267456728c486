import Benchmark
import Foundation
import Moraine
import MoraineEngine

func repositoryBenchmarks() {
  onModels("repository, save", scale: .kilo) { benchmark, models in
    let start = benchmark.currentIteration * 1000
    for id in start..<start + 1000 { try await models.save(User(id % User.count)) }
  }
  onModels("repository, find in memory", scale: .kilo, cache: .all) { benchmark, models in
    for id in 0..<1000 { _ = try await models.find(by: id) }
    benchmark.startMeasurement()
    for id in 0..<1000 { try require(try await models.find(by: id)?.id == id, "find") }
  }
  onModels("repository, find and decode", scale: .kilo) { _, models in
    for id in 0..<1000 { try require(try await models.find(by: id)?.id == id, "find") }
  }
  onModels("repository, loadAll of 10,000") { _, models in
    try require(try await models.loadAll().count == User.count, "loadAll")
  }
}

private struct User: Codable, Identifiable, Sendable {
  static let count = 10_000

  let id: Int
  let name: String
  let email: String
  let tags: [String]

  init(_ id: Int) {
    self.id = id
    name = "Somebody Number \(id)"
    email = "somebody-\(id)@example.org"
    tags = ["reader", "tag \(id % 10)"]
  }
}

private func onModels(
  _ name: String, scale: BenchmarkScalingFactor = .one, cache: CachePolicy = .none,
  _ body: @escaping (Benchmark, LocalRepository<User>) async throws -> Void
) {
  Benchmark.on(name, scale: scale, isFilled: false) { benchmark, ground in
    let models = try LocalRepository<User>(in: ground.store, named: "users", cache: cache)
    if try await ground.store.count() == 0 {
      try await models.save(contentsOf: (0..<User.count).map(User.init))
    }
    benchmark.startMeasurement()
    try await body(benchmark, models)
  }
}
