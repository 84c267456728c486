import Moraine
import MoraineTesting
import Testing

/// The code of the article Expiry.
@Suite struct ExpiryArticleTests {
  private struct Invitation: Codable, Identifiable {
    var id: Int
  }

  @Test func sessionsEndByThemselves() async throws {
    let (bytes, changed, token): ([UInt8], [UInt8], Key) = ([1], [2], "token")
    let store = Store.inMemory()
    let sessions = try store.keyspace(named: "sessions", defaultLifetime: .seconds(1800))
    try await sessions.set(bytes, forKey: token)  // for half an hour
    try await sessions.set(bytes, forKey: "root", expiring: .never)
    try await store.set(bytes, forKey: "invitation", expiring: .after(.seconds(86_400)))
    let end = try await sessions.expiry(forKey: token)?.milliseconds
    // This entry ends when the old one would have ended.
    try await sessions.set(changed, forKey: token, expiring: .unchanged)
    #expect(end != nil)
    #expect(try await sessions.versionedValue(forKey: token)?.expiry.milliseconds == end)
    #expect(try await sessions.expiry(forKey: "root") == .never)
    try await store.close()
  }

  @Test func modelsEndByThemselves() async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let invitations = try LocalRepository<Invitation>(in: store, named: "invitations")
    let invitation = Invitation(id: 7)
    try await invitations.save(invitation, expiring: .after(.seconds(86_400)))
    #expect(try await invitations.find(by: 7) != nil)
    clock.advance(by: .seconds(86_400))
    #expect(try await invitations.find(by: 7) == nil)
    #expect(try await invitations.loadAll().isEmpty)
    #expect(try await invitations.count() == 0)
    try await store.close()
  }

  @Test func manualClockMovesWithTheTest() async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    try await store.set([1], forKey: "k", expiring: .after(.seconds(60)))
    clock.advance(by: .seconds(60))
    let value = try await store.value(forKey: "k")  // nil
    #expect(value == nil)
    try await store.close()
  }
}
