import Foundation
import Moraine
import Testing

/// The code of the article `Transactions`.
@Suite struct TransactionsArticleTests {
  struct TooExpensive: Error {}

  struct Shop: Sendable {
    func price(of item: String) async throws -> UInt8 { 12 }
  }

  struct Person: Codable, Identifiable, Sendable {
    let id: Int
    var visitCount = 0
  }

  struct Visit: Codable, Identifiable, Sendable {
    let id: Int
    var person: Int
  }

  @Test func buying() async throws {
    let store = Store.inMemory()
    let (accounts, orders) = (
      try store.keyspace(named: "accounts"), try store.keyspace(named: "orders")
    )
    let shop = Shop()
    try await accounts.set([30], forKey: "balance")
    try await store.transaction { transaction in
      guard let old = try transaction.value(forKey: "balance", in: accounts) else { return }
      // Other tasks and processes go on writing.
      let price = try await shop.price(of: "book")
      guard old[0] >= price else { throw TooExpensive() }
      try transaction.set([old[0] - price], forKey: "balance", in: accounts)
      try transaction.set(old, forKey: "book", in: orders)
    }
    #expect(try await accounts.value(forKey: "balance") == [18])
    #expect(try await orders.value(forKey: "book") == [30])
  }

  @Test func conflicts() async throws {
    let store = Store.inMemory()
    do {
      try await store.transaction(retries: 0) { transaction in
        let seen = try transaction.value(forKey: "k")
        try await store.set([2], forKey: "k")  // another writer
        try transaction.set(seen ?? [1], forKey: "copy")
      }
    } catch let error as StoreError where error.code == .conflict {
      print("\(error.conflict?.key ?? "a key") was changed")
    }
    #expect(try await store.value(forKey: "copy") == nil)
  }

  @Test func repositories() async throws {
    let store = Store.inMemory()
    try await LocalRepository<Person>(in: store, named: "people").save(Person(id: 7))
    let people = try LocalRepository<Person>(in: store, named: "people")
    let visits = try LocalRepository<Visit>(in: store, named: "visits")
    try await store.transaction { transaction in
      guard var person = try await people.find(by: 7, in: transaction) else { return }
      person.visitCount += 1
      try await people.save(person, in: transaction)
      try await visits.save(Visit(id: person.visitCount, person: 7), in: transaction)
    }
    #expect(try await people.find(by: 7)?.visitCount == 1)
    #expect(try await visits.loadAll().map(\.person) == [7])
    try await store.transaction { transaction in
      #expect(try await visits.loadAll(in: transaction).count == 1)
      try await visits.delete(1, in: transaction)
      #expect(try await visits.loadAll(in: transaction).isEmpty)
      #expect(try await people.find(by: 8, in: transaction, isTracked: false) == nil)
    }
    #expect(try await visits.count() == 0)
  }
}
