import Foundation
import Moraine
import Testing

/// Values as `Data`, beside arrays of bytes.
@Suite struct DataTests {
  private let one = Data([1, 2, 3])
  // The first index of a slice is not 0.
  private let part = Data([9, 8, 7, 6]).dropFirst(2)

  @Test func dataIsStoredAndReturnedLikeBytes() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "parts")
    try await store.set(one, forKey: "a")
    try await keyspace.set(part, forKey: "a")
    try await keyspace.set(part, forKey: "b", expiring: .after(.seconds(60)))
    #expect(try await store.set(one, forKey: "a", if: .absent) == nil)
    #expect(try await keyspace.set(one, forKey: "c", if: .absent) != nil)
    try await store.write { batch in
      try batch.set(self.part, forKey: "d")
      try batch.set(self.one, forKey: "d", in: keyspace)
      #expect(try batch.data(forKey: "d") == Data([7, 6]))
      #expect(try batch.data(forKey: "d", in: keyspace) == self.one)
    }
    try await store.transaction { transaction in
      try transaction.set(self.part, forKey: "e")
      #expect(try transaction.data(forKey: "e") == Data([7, 6]))
      #expect(try transaction.data(forKey: "a", in: keyspace) == Data([7, 6]))
    }
    let queue = try await store.writeQueue()
    try await queue.set(one, forKey: "f")
    #expect(try queue.data(forKey: "f") == one)
    try await queue.flush()
    #expect(try await store.value(forKey: "a") == [1, 2, 3])
    #expect(try await store.data(forKey: "e") == Data([7, 6]))
    #expect(try await keyspace.value(forKey: "a") == [7, 6])
    #expect(try await keyspace.data(forKey: "b") == Data([7, 6]))
    #expect(try await keyspace.data(forKey: "x") == nil)
    #expect(try await store.snapshot().data(forKey: "f") == one)
    #expect(try await store.reader().data(forKey: "f") == one)
    #expect(try await store.versionedValue(forKey: "f")?.data == one)
  }

  @Test func uuidsOfVersion7AreKeysInTheirOrder() async throws {
    let store = Store.inMemory()
    let keyspace = try store.orderedKeyspace(named: "events")
    let ids = try ["018f0000-0000-7000-8000-000000000002", "018f0000-0001-7000-8000-000000000001"]
      .map { try #require(UUID(uuidString: $0)) }
    for id in ids.reversed() { try await keyspace.set(one, forKey: Key(id)) }
    #expect(try await keyspace.keys(limit: 9) == ids.map { Key($0) })
    #expect(Key(ids[0]).data.count == 16)
    #expect(Key(one).bytes == [1, 2, 3])
  }
}
