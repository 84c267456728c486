import Foundation
import Moraine
import SystemPackage
import Testing

@Suite struct SharingArticleTests {
  @Test func severalProcesses() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let users = try LocalRepository<User>(directory: folder, filename: "users", sharing: .shared)
    try await users.save(User(id: 1, name: "Ada"))

    let path = ground.path.appending("store.moraine")
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    let store = try Store(at: path, configuration: configuration)
    try await store.set([1], forKey: "a")
    try await store.suspend()
    await #expect(throws: StoreError.self) { try await store.value(forKey: "a") }
    try await store.resume()
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
    try await users.keyspace.store.close()
  }
}
