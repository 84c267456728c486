import Foundation
import Moraine
import MoraineTesting
import Testing

/// Predicates of Foundation as conditions of a query.
@Suite(.timeLimit(.minutes(10))) struct PredicateTests {
  private func people(count: Int) async throws -> LocalRepository<Person> {
    var random = SeededGenerator(seed: 7)
    let people = try LocalRepository<Person>(
      in: Store.inMemory(), named: "people", indexes: Array(Person.indexes[1...]))
    try await people.save(contentsOf: (0..<count).map { Person.random($0, &random) })
    try await people.buildIndexes()
    return people
  }

  @Test func comparisonsUseAnIndexAndOtherPartsAreApplied() async throws {
    let people = try await people(count: 300)
    let all = try await people.loadAll()
    let (low, city) = (2, "Oslo")
    let predicates: [(Predicate<Person>, String?, Bool)] = [
      (#Predicate { $0.age >= low }, "age", false),
      (#Predicate { $0.age < 3 }, "age", false),
      (#Predicate { 3 > $0.age }, "age", false),
      (#Predicate { $0.age == 4 }, "age", false),
      (#Predicate { $0.city == city && $0.age > low }, "city, age", false),
      (#Predicate { $0.age > low && $0.age <= 5 && $0.city == city }, "city, age", false),
      (#Predicate { (low..<6).contains($0.age) }, "age", false),
      (#Predicate { (low...6).contains($0.age) }, "age", false),
      (#Predicate { $0.city == city && $0.tags.contains("a") }, "city, age", true),
      (#Predicate { $0.city == city || $0.age == 1 }, nil, true),
      (#Predicate { $0.city.starts(with: "B") && $0.age == 2 }, "age", true),
      (#Predicate { $0.city.starts(with: "B") }, "city, age", true),
      (#Predicate { $0.email == nil }, nil, true),
    ]
    for (number, (predicate, index, isFiltering)) in predicates.enumerated() {
      let query = people.query().filter(predicate)
      let plan = try await query.explain()
      #expect(plan.index == index, "predicate \(number)")
      #expect(plan.isFiltering == isFiltering, "predicate \(number)")
      let expected = try all.filter { try predicate.evaluate($0) }
      #expect(!expected.isEmpty, "predicate \(number)")
      #expect(
        Set(try await people.fetch(predicate).map(\.id)) == Set(expected.map(\.id)),
        "predicate \(number)")
    }
  }

  @Test func descriptorsSortAndTheLimitCutsAfterwards() async throws {
    let people = try await people(count: 100)
    let found = try await people.fetch(
      #Predicate<Person> { $0.age > 0 },
      sortBy: [SortDescriptor(\.age, order: .reverse), SortDescriptor(\.id)], limit: 7)
    let expected = try await people.loadAll().filter { $0.age > 0 }
      .sorted { $0.age != $1.age ? $0.age > $1.age : $0.id < $1.id }
    #expect(found == Array(expected.prefix(7)))
  }
}
