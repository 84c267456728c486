import Foundation
import Moraine
import MoraineTesting

/// The model of the tests of indexes and queries.
struct Person: Codable, Identifiable, Equatable, Sendable {
  var id: Int
  var email: String?
  var age: Int
  var city: String
  var tags: [String] = []
  var isActive = false

  /// All indexes.
  static let indexes: [ModelIndex<Person>] = [
    .unique("email", on: \.email),
    .index("age", on: \.age),
    .index("city, age", on: \.city, \.age),
    .index("tags", onEach: \.tags),
    .index("active", on: \.age, where: \.isActive),
  ]

  /// Returns a person with random values. Emails of different persons are often the same.
  static func random(_ id: Int, _ random: inout SeededGenerator) -> Person {
    let cities = ["Bern", "Oslo", "Zug", "", "Ål", "A\u{30A}l", "Bern\u{0}", "東京", "B\u{30C}ern"]
    let tags = ["a", "b", "c", "d"]
    return Person(
      id: id,
      email: random.next() % 3 == 0 ? nil : "\(random.next() % 60)@example.org",
      age: Int(random.next() % 12) - 3, city: cities[Int(random.next() % 9)],
      tags: tags.filter { _ in random.next() % 3 == 0 }, isActive: random.next() % 2 == 0)
  }

  /// Whether two persons are in the order that queries give to models with equal values.
  static func idsAreInOrder(_ one: Person, _ other: Person) -> Bool {
    func tie(_ id: Int) -> [UInt8] { Array("\(id)".utf8) + [UInt8("\(id)".utf8.count)] }
    return tie(one.id).lexicographicallyPrecedes(tie(other.id))
  }
}

/// A query, and the same as an operation on an array.
struct ComparedQuery: Sendable {
  let name: String
  let query: @Sendable (LocalRepository<Person>) -> ModelQuery<Person>
  let isIncluded: @Sendable (Person) -> Bool
  /// Nil for a query without an order.
  var precedes: (@Sendable (Person, Person) -> Bool)?

  /// Returns the models that the query must find.
  func expected(_ all: [Person]) -> [Person] {
    all.filter(isIncluded).sorted(by: precedes ?? Person.idsAreInOrder)
  }

  /// - Parameter hasAllIndexes: whether the repository declares the partial index.
  static func random(
    _ random: inout SeededGenerator, hasAllIndexes: Bool
  ) -> ComparedQuery {
    let low = Int(random.next() % 14) - 4
    let high = low + Int(random.next() % 6)
    let city = ["Bern", "Oslo", "Zug", "", "Ål", "Bern\u{0}", "東京", "x"][Int(random.next() % 8)]
    let email = "\(random.next() % 60)@example.org"
    let tag = ["a", "b", "c", "e"][Int(random.next() % 4)]
    let prefix = ["", "B", "Bern", "A", "Å", "A\u{30A}l", "東"][Int(random.next() % 7)]
    let all: [ComparedQuery] = [
      ComparedQuery(
        name: "email is \(email)", query: { $0.query(where: \.email, is: email) },
        isIncluded: { $0.email == email }),
      ComparedQuery(
        name: "email is nil", query: { $0.query(where: \.email, is: nil) },
        isIncluded: { $0.email == nil }),
      ComparedQuery(
        name: "email up to \(email)", query: { $0.query(where: \.email, in: ...email) },
        isIncluded: { $0.email.map { $0 <= email } ?? false }),
      ComparedQuery(
        name: "email from \(email), by email, descending",
        query: { $0.query(where: \.email, in: email...).sorted(by: \.email, .descending) },
        isIncluded: { $0.email.map { $0 >= email } ?? false },
        precedes: {
          $0.email != $1.email
            ? $0.email! > $1.email! : Person.idsAreInOrder($1, $0)
        }),
      ComparedQuery(
        name: "city begins with \(prefix), by city and age",
        query: {
          $0.query(where: \.city, hasPrefix: prefix).sorted(by: \.city).sorted(by: \.age)
        },
        isIncluded: { $0.city.hasPrefix(prefix) },
        precedes: {
          if $0.city != $1.city { return $0.city < $1.city }
          return $0.age != $1.age ? $0.age < $1.age : Person.idsAreInOrder($0, $1)
        }),
      ComparedQuery(
        name: "age in \(low)..<\(high)", query: { $0.query(where: \.age, in: low..<high) },
        isIncluded: { (low..<high).contains($0.age) }),
      ComparedQuery(
        name: "age up to \(high), descending",
        query: { $0.query(where: \.age, in: ...high).sorted(by: \.age, .descending) },
        isIncluded: { $0.age <= high },
        precedes: {
          $0.age != $1.age ? $0.age > $1.age : Person.idsAreInOrder($1, $0)
        }),
      ComparedQuery(
        name: "city is \(city), age from \(low), by age",
        query: {
          $0.query(where: \.city, is: city).where(\.age, in: low...).sorted(by: \.age)
        },
        isIncluded: { $0.city == city && $0.age >= low },
        precedes: {
          $0.age != $1.age ? $0.age < $1.age : Person.idsAreInOrder($0, $1)
        }),
      ComparedQuery(
        name: "by city, then by age, descending",
        query: { $0.query().sorted(by: \.city).sorted(by: \.age, .descending) },
        isIncluded: { _ in true },
        precedes: {
          if $0.city != $1.city { return $0.city < $1.city }
          return $0.age != $1.age ? $0.age > $1.age : Person.idsAreInOrder($1, $0)
        }),
      ComparedQuery(
        name: "by city and age", query: { $0.query().sorted(by: \.city).sorted(by: \.age) },
        isIncluded: { _ in true },
        precedes: {
          if $0.city != $1.city { return $0.city < $1.city }
          return $0.age != $1.age ? $0.age < $1.age : Person.idsAreInOrder($0, $1)
        }),
      ComparedQuery(
        name: "any tag is \(tag)", query: { $0.query(whereAny: \.tags, is: tag) },
        isIncluded: { $0.tags.contains(tag) }),
      ComparedQuery(
        name: "any tag in a...b, by age",
        query: { $0.query().where(any: \.tags, in: "a"..."b").sorted(by: \.age) },
        isIncluded: { $0.tags.contains { ("a"..."b").contains($0) } },
        precedes: {
          $0.age != $1.age ? $0.age < $1.age : Person.idsAreInOrder($0, $1)
        }),
      ComparedQuery(
        name: "age in \(low)...\(high), filtered",
        query: { $0.query(where: \.age, in: low...high).filter { $0.city != city } },
        isIncluded: { (low...high).contains($0.age) && $0.city != city }),
      ComparedQuery(
        name: "active, age in \(low)...\(high)",
        query: { $0.query(where: \.age, in: low...high).using("active") },
        isIncluded: { $0.isActive && (low...high).contains($0.age) }),
    ]
    return all[Int(random.next() % UInt64(hasAllIndexes ? all.count : all.count - 1))]
  }
}

/// Compares queries with the same operations on all models.
///
/// - Returns: what differs; nil when nothing does.
func difference(
  of users: LocalRepository<Person>, queries: Int, _ random: inout SeededGenerator,
  hasAllIndexes: Bool = true
) async throws -> String? {
  let all = try await users.loadAll()
  for _ in 0..<queries {
    let compared = ComparedQuery.random(&random, hasAllIndexes: hasAllIndexes)
    let query = compared.query(users)
    let expected = compared.expected(all)
    var found = try await query.fetch()
    if compared.precedes == nil { found.sort(by: Person.idsAreInOrder) }
    let plan = try await query.explain()
    if found != expected {
      return "\(compared.name) (\(plan)): found \(found.map(\.id)), not \(expected.map(\.id))"
    }
    let count = try await query.count()
    if count != expected.count {
      return "\(compared.name) (\(plan)): count \(count), not \(expected.count)"
    }
    guard compared.precedes != nil else { continue }
    let limit = Int(random.next() % 5) + 1
    if try await query.limit(limit).fetch() != Array(expected.prefix(limit)) {
      return "\(compared.name) (\(plan)): limit \(limit)"
    }
    var (paged, token): ([Person], QueryToken?) = ([], nil)
    repeat {
      let page = try await query.limit(limit).page(after: token)
      paged += page.models
      token = page.next
    } while token != nil
    if paged != expected { return "\(compared.name) (\(plan)): pages of \(limit)" }
  }
  return nil
}
