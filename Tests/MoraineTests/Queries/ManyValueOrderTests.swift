import Foundation
import Moraine
import Testing

/// The order of a query whose index has an entry for each of many values.
@Suite(.timeLimit(.minutes(10))) struct ManyValueOrderTests {
  private struct Blob: Codable, Identifiable, Equatable, Sendable {
    var id: String
    var data: Data
  }

  /// Regression: an index of each byte was taken to have the order of all bytes, where one of them
  /// was known.
  @Test func queryOfOneOfManyValuesHasTheOrderOfAllOfThem() async throws {
    let each: [ModelIndex<Blob>] = [.index("bytes", onEach: \.data)]
    for indexes in [[], each] {
      let blobs = try LocalRepository<Blob>(
        in: Store.inMemory(), named: "blobs", indexes: indexes)
      try await blobs.save(contentsOf: [
        Blob(id: "1", data: Data([9, 5])), Blob(id: "2", data: Data([1, 5])),
      ])
      let query = blobs.query(whereAny: \.data, is: UInt8(5)).sorted(by: \.data)
      let plan = try await query.explain()
      #expect(plan.index == indexes.first?.name)
      #expect(plan.isSortingInMemory)
      #expect(try await query.fetch().map(\.id) == ["2", "1"])
      #expect(try await query.limit(1).fetch().map(\.id) == ["2"])
    }
  }
}
