import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Walks over live records, a page at a time.
@Suite struct LivePageTests {
  /// Regression: the walk followed the writes of the caller without end.
  @Test func walkEndsWhileEachPageIsFollowedByWrites() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: .testing())
    for number in 0..<600 { try await store.set([1], forKey: Key("\(number)")) }
    let keyspace = Keyspace(store: store, name: "")
    var found: Set<String> = []
    var pageCount = 0
    var next: LiveWalk? = LiveWalk()
    while let walk = next, pageCount < 50 {
      let page = try await keyspace.livePage(walk)
      found.formUnion(page.entries.map { "\($0.key)" })
      next = page.next
      pageCount += 1
      for number in 0..<300 { try await store.set([2], forKey: Key("\(number)")) }
    }
    #expect(next == nil, "\(pageCount) pages")
    #expect(found.count == 600)
    try await store.close()
  }
}
