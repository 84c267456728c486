import Moraine
import MoraineEngine

/// The model of the rows of observed queries.
private struct RankedModel: Codable, Identifiable {
  let id: Int
  let rank: Int
}

/// A query returned something else than what was saved.
private struct WrongState: Error {}

/// The model of the rows with indexes.
private struct IndexedModel: Codable, Identifiable {
  let id: Int
  let email: String
  let score: Double

  init(_ id: Int, round: Int = 0) {
    self.id = id
    email = "\(id)-\(round)@example.org"
    score = Double((id &* 7919 &+ round &* 31) % 1_000)
  }
}

extension Rows {
  /// Saves models, one after the other, under an observed query of all models in the order of their
  /// ranks, and waits for the new state after each. Each model gets another rank.
  func observed(_ store: Store, modelCount: Int, _ count: Int) async throws {
    let models = try LocalRepository<RankedModel>(in: store, named: "models")
    try await models.save(contentsOf: (0..<modelCount).map { RankedModel(id: $0, rank: $0) })
    var updates = models.query().sorted(by: \.rank).updates.makeAsyncIterator()
    _ = try await updates.next(isolation: nil)
    for number in 0..<count {
      let rank = (number &* 7919) % modelCount
      try await models.save(RankedModel(id: (number &* 31) % modelCount, rank: rank))
      guard let update = try await updates.next(isolation: nil), update.steps.count == 1,
        update.models.count == modelCount
      else { throw WrongState() }
    }
  }

  /// Saves models again whose values in a unique index and in another one change.
  func saveIndexed(_ store: Store, _ count: Int) async throws {
    let models = try await indexed(store)
    for number in 0..<count { try await models.save(IndexedModel(number % 1_000, round: number)) }
  }

  /// Finds models by a unique value.
  func findIndexed(_ store: Store, _ count: Int) async throws {
    let models = try await indexed(store)
    for number in 0..<count {
      guard try await models.find(\.email, IndexedModel(number % 1_000).email) != nil else {
        throw WrongState()
      }
    }
  }

  private func indexed(_ store: Store) async throws -> LocalRepository<IndexedModel> {
    let models = try LocalRepository<IndexedModel>(
      in: store, named: "models",
      indexes: [.unique("email", on: \.email), .index("score", on: \.score)])
    try await models.save(contentsOf: (0..<1_000).map { IndexedModel($0) })
    try await models.buildIndexes()
    return models
  }
}
