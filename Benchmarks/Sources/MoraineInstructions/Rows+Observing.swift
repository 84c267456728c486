import Moraine
import MoraineEngine

/// The model of the rows of observed queries.
private struct RankedModel: Codable, Identifiable {
  let id: Int
  let rank: Int
}

/// A query returned another state than that of the change.
private struct WrongState: Error {}

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
}
