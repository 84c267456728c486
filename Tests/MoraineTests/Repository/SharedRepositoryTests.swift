import Foundation
import Moraine
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
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

  private struct Text: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var text: String
  }

  private final class Counter: Sendable { let value = Atomic(0) }

  /// Makes a store with many segments, each of which is half garbage.
  ///
  /// - Returns: the ids of the models that are left.
  private func fill(_ texts: LocalRepository<Text>) async throws -> [Int] {
    var random = SeededGenerator(seed: 1)
    for start in stride(from: 0, to: 1200, by: 30) {
      var some: [Text] = []
      for id in start..<start + 30 {
        let words = (0..<16).map { _ in String(random.next(), radix: 36) }
        some.append(Text(id: id, text: words.joined()))
      }
      try await texts.save(contentsOf: some)
    }
    try await texts.delete(contentsOf: (0..<600).map { 2 * $0 + 1 })
    return (0..<600).map { 2 * $0 }
  }

  /// Regression: a query reads most files only when it needs them. It called those damaged that
  /// another process had removed by then, and an observed query ended.
  @Test(arguments: [false, true])
  func queryFindsAllModelsWhileAnotherProcessRemovesItsFiles(isObserved: Bool) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    configuration.ioMode = .positional
    configuration.segmentSizeBytes = 16 << 10
    configuration.compaction = .manual
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    let indexes: [ModelIndex<Text>] = [.index("id", on: \.id)]
    let ids = try await fill(
      try LocalRepository<Text>(in: writer, named: "texts", indexes: indexes))
    let reader = try Store(on: memory, at: "store", configuration: configuration)
    let texts = try LocalRepository<Text>(in: reader, named: "texts", indexes: indexes)
    let (gate, runs) = (Gate(), Counter())
    let query = texts.query().sorted(by: \.id).requiringIndex().filter { text in
      if text.id == 0 { runs.value.add(1, ordering: .relaxed) }
      gate.pass()
      return true
    }
    async let answer = ThreadExecutor.run { () async throws -> [Int] in
      guard isObserved else { return try await query.fetch().map(\.id) }
      var updates = query.updates.makeAsyncIterator()
      let update = try await updates.next(isolation: nil)
      return update.map { $0.models.map(\.id) } ?? []
    }
    await gate.arrival()
    try await writer.compact()
    gate.open()
    #expect(try await answer == ids)
    #expect(runs.value.load(ordering: .relaxed) == 2, "the first run had read all files already")
    for store in [writer, reader] { try await store.close() }
  }
}
