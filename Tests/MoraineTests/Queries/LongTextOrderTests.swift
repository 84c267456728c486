import Moraine
import MoraineTesting
import Testing

/// Queries in the order of an index of several properties, which has only the beginning of a text.
@Suite(.timeLimit(.minutes(5))) struct LongTextOrderTests {
  private struct File: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var owner: String
    var path: String
    var name: String
  }

  /// As many bytes as an index of two properties has of a text.
  private static let beginning = String(repeating: "x", count: 145)

  private static let files = [
    File(id: 1, owner: "me", path: beginning + "b", name: "Z"),
    File(id: 2, owner: "me", path: beginning + "c", name: "A"),
    File(id: 3, owner: "you", path: "a", name: "M"),
    File(id: 4, owner: "me", path: beginning + "b", name: "A"),
    File(id: 5, owner: "me", path: beginning + "a", name: "B"),
    File(id: 6, owner: "you", path: beginning, name: "C"),
    File(id: 7, owner: "me", path: "y", name: "B"),
  ]

  private func repository(_ store: Store) throws -> LocalRepository<File> {
    try LocalRepository(
      in: store, named: "files",
      indexes: [
        .index("path, name", on: \.path, \.name), .index("owner, path", on: \.owner, \.path),
      ])
  }

  @Test(arguments: [KeyOrder.ascending, .descending])
  func longTextsHaveOneOrderWithAndWithoutAnIndex(order: KeyOrder) async throws {
    let store = Store.inMemory()
    let files = try repository(store)
    try await files.save(contentsOf: Self.files)
    try await files.buildIndexes()
    let plain = try LocalRepository<File>(in: store, named: "files")
    let byName = { (files: LocalRepository<File>) in
      files.query().sorted(by: \.path, order).sorted(by: \.name, order)
    }
    let ofOwner = { (files: LocalRepository<File>) in
      files.query(where: \.owner, is: "me").sorted(by: \.path, order)
    }
    let expected = try await byName(plain).fetch()
    let ids = [3, 6, 5, 4, 1, 2, 7]
    #expect(expected.map(\.id) == (order == .ascending ? ids : ids.reversed()))
    try await compare(byName(files), with: expected, index: "path, name")
    try await compare(
      ofOwner(files), with: try await ofOwner(plain).fetch(), index: "owner, path")
  }

  private func compare(
    _ query: ModelQuery<File>, with expected: [File], index: String
  ) async throws {
    #expect(try await query.explain().index == index)
    #expect(try await query.fetch() == expected)
    for limit in 1...expected.count {
      #expect(try await query.limit(limit).fetch() == Array(expected.prefix(limit)))
      var (paged, token): ([File], QueryToken?) = ([], nil)
      repeat {
        let page = try await query.limit(limit).page(after: token)
        paged += page.models
        token = page.next
      } while token != nil && paged.count < 2 * expected.count
      #expect(paged == expected, "pages of \(limit)")
      var updates = query.limit(limit).updates.makeAsyncIterator()
      let state = try await updates.next(isolation: nil)
      #expect(state.map { Array($0.models) } == Array(expected.prefix(limit)))
    }
  }

  /// A limit is reached before the query meets a long text.
  @Test func shortTextsAreReadInTheOrderOfTheIndex() async throws {
    let files = try repository(Store.inMemory())
    try await files.save(contentsOf: Self.files)
    try await files.save(
      contentsOf: (10..<90).map {
        File(id: $0, owner: "me", path: "p\($0 / 10)", name: "\($0)")
      })
    try await files.buildIndexes()
    let query = files.query().sorted(by: \.path).sorted(by: \.name)
      .sortingInMemory(atMost: 0).limit(20)
    #expect(try await !query.explain().isSortingInMemory)
    #expect(try await query.fetch().map(\.id) == [3] + Array(10..<29))
    let first = try await query.page()
    #expect(first.models.map(\.id) == [3] + Array(10..<29))
    let second = try await query.page(after: first.next)
    #expect(second.models.map(\.id) == Array(29..<49))
  }

  private struct Street: IndexValue, Codable, Comparable {
    var name: String
    var number: Int

    func encode(into encoder: inout IndexEncoder) {
      encoder.append(name)
      encoder.append(number)
    }

    static func < (left: Self, right: Self) -> Bool {
      left.name == right.name ? left.number < right.number : left.name < right.name
    }
  }

  private struct House: Codable, Identifiable, Sendable {
    var id: Int
    var street: Street
    var age: Int
  }

  /// Regression: what followed the beginning of a long text in one value decided whether a range of
  /// the index contains the value, before the rest of the text.
  @Test func rangesHaveEachValueWithALongTextAndANumber() async throws {
    let store = Store.inMemory()
    let indexed = try LocalRepository<House>(
      in: store, named: "houses", indexes: [.index("street, age", on: \.street, \.age)])
    let names = ["x", "xx", "xa", "xb", "xxa", "xxb"].map {
      String(repeating: "x", count: 143) + $0
    }
    let streets = names.flatMap { name in [1, 5, 9].map { Street(name: name, number: $0) } }
    try await indexed.save(
      contentsOf: streets.enumerated().map { House(id: $0, street: $1, age: $0 % 3) })
    try await indexed.buildIndexes()
    let plain = try LocalRepository<House>(in: store, named: "houses")
    for street in streets {
      for (number, pair) in [
        (
          indexed.query(where: \.street, in: street...), plain.query(where: \.street, in: street...)
        ),
        (
          indexed.query(where: \.street, in: ...street), plain.query(where: \.street, in: ...street)
        ),
        (
          indexed.query(where: \.street, in: ..<street), plain.query(where: \.street, in: ..<street)
        ),
      ].enumerated() {
        let found = try await pair.0.fetch().map(\.id).sorted()
        let expected = try await pair.1.fetch().map(\.id).sorted()
        #expect(found == expected, "range \(number) of \(street)")
        #expect(try await pair.0.count() == expected.count)
        #expect(try await pair.0.explain().index == "street, age")
      }
    }
  }
}
