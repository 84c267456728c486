import Foundation
import Moraine
import Testing

extension PersistedKey where Value == Int {
  static var launchCount: Self { Self("launchCount", default: 0) }
}

struct Statistics {
  @Persisted(.launchCount) var launchCount
}

@Suite struct ComingFromTests {
  init() { settingsAreInMemory }

  struct Contact: Codable, Identifiable, Sendable {
    let id: Int
    var name: String
  }

  @Test func theRepositoryPattern() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let old = try JSONEncoder().encode([Contact(id: 1, name: "Lovelace")])
    try old.write(to: folder.appending(path: "contacts.json"))
    let contacts = try LocalRepository<Contact>(directory: folder, filename: "contacts")
    let imported = try await contacts.importArray(from: folder.appending(path: "contacts.json"))
    #expect(imported == 1)
    #expect(try await rename(1, in: folder).isEmpty)
    #expect(try await contacts.count() == 0)
    try await contacts.keyspace.store.close()
  }

  private func rename(_ id: Int, in folder: URL) async throws -> [Contact] {
    let contacts = try LocalRepository<Contact>(directory: folder, filename: "contacts")
    guard var contact = try await contacts.find(by: id) else { return [] }
    contact.name = "Ada"
    try await contacts.save(contact)
    try await contacts.delete(id)
    let list = try await contacts.loadAll().sorted { $0.name < $1.name }
    return list
  }

  @Test func changesInOneStep() async throws {
    let contacts = LocalRepository<Contact>.inMemory()
    let id = 1
    try await contacts.update(id) { contact in
      var contact = contact ?? Contact(id: id, name: "")
      contact.name += "!"
      return contact  // nil deletes it
    }
    try await contacts.write { batch in
      guard let contact = try batch.find(by: id) else { return }
      try batch.save(Contact(id: contact.id + 1, name: contact.name))
      batch.delete(id)
    }
    #expect(try await contacts.loadAll().map(\.id) == [2])
    // In one commit.
    if try await contacts.contains(id + 1) { try await contacts.deleteAll() }
    #expect(try await contacts.count() == 0)
    try await contacts.close()
  }

  @Test func userDefaults() async throws {
    let statistics = Statistics()
    statistics.$launchCount.withLock { $0 += 1 }
    #expect(statistics.launchCount > 0)
  }

  struct Settings {
    @Persisted("theme", in: .inMemory()) var theme = "light"
  }

  @Test func takingValuesOver() async throws {
    let settings = Settings()
    let name = "moraine.documentation.\(UUID())"
    let old = try #require(UserDefaults(suiteName: name))
    defer { old.removePersistentDomain(forName: name) }
    old.set("dark", forKey: "theme")
    if let theme = old.string(forKey: "theme") {
      settings.theme = theme
      try await settings.$theme.save()
      old.removeObject(forKey: "theme")
    }
    #expect(settings.theme == "dark")
    #expect(old.string(forKey: "theme") == nil)
  }

  @Test func sqlite() async throws {
    let store = Store.inMemory()
    let accounts = try store.keyspace(named: "accounts")
    try await store.set([12], forKey: "balance")
    try await store.write { batch in
      let balance = try batch.value(forKey: "balance").map { $0[0] } ?? 0
      guard balance >= 5 else { return }
      try batch.set([balance - 5], forKey: "balance")
      try batch.set([5], forKey: "paid", in: accounts)
    }
    #expect(try await store.value(forKey: "balance") == [7])
    #expect(try await accounts.value(forKey: "paid") == [5])

    let repository = try LocalRepository<Contact>(in: store, named: "contacts")
    let rows = (0..<2500).map { Contact(id: $0, name: "\($0)") }
    for start in stride(from: 0, to: rows.count, by: 1000) {
      let part = rows[start..<min(start + 1000, rows.count)]
      try await repository.save(contentsOf: part)
    }
    #expect(try await repository.count() == 2500)
  }
}
