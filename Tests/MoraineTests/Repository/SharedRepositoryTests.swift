import Foundation
import Moraine
import SystemPackage
import Testing

/// Repositories of several openings of one store, as in several processes.
@Suite(.timeLimit(.minutes(10))) struct SharedRepositoryTests {
  private struct User: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var name: String
  }

  /// A model in memory is never older than a write that another process has acknowledged.
  @Test func aModelInMemoryIsNoOlderThanTheStore() async throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { do { try FileManager.default.removeItem(at: folder) } catch { print(error) } }
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    let path = FilePath(folder.path).appending("store")
    let stores = try (0..<2).map { _ in try Store(at: path, configuration: configuration) }
    let users = try stores.map { try LocalRepository<User>(in: $0, named: "users") }
    for round in 0..<50 {
      let user = User(id: round % 3, name: "\(round)")
      try await users[round % 2].save(user)
      #expect(try await users[1 - round % 2].find(by: user.id) == user)
      #expect(try await users[round % 2].find(by: user.id) == user)
    }
    try await users[0].delete(1)
    #expect(try await users[1].find(by: 1) == nil)
    #expect(try await users[1].count() == 2)
    for store in stores { try await store.close() }
  }
}
