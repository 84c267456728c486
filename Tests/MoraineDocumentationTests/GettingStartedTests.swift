import Foundation
import Moraine
import SystemPackage
import Testing

@Suite struct GettingStartedTests {
  struct Note: Codable, Identifiable, Sendable {
    let id: UUID
    var text: String
  }

  @Test func models() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let notes = try LocalRepository<Note>(directory: folder, filename: "notes")
    let note = Note(id: UUID(), text: "Buy salt")
    try await notes.save(note)
    let found = try await notes.find(by: note.id)
    let all = try await notes.loadAll()
    #expect(found?.text == "Buy salt")
    #expect(all.count == 1)

    let letters = try LocalRepository<Note>(
      directory: folder, filename: "letters", durability: .sync)
    try await letters.save(note)
    #expect(try await letters.count() == 1)
    try await notes.keyspace.store.close()
    try await letters.keyspace.store.close()
  }

  @Test func bytes() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let store = try Store(at: FilePath(folder.path).appending("cache.moraine"))
    try await store.set(Array("<svg/>".utf8), forKey: "icon")
    let icon = try await store.value(forKey: "icon")
    try await store.removeValue(forKey: "icon")
    #expect(icon == Array("<svg/>".utf8))

    for _ in 0..<2 {
      try await store.write { batch in
        let visits = try batch.value(forKey: "visits").map { $0[0] } ?? 0
        try batch.set([visits + 1], forKey: "visits")
      }
    }
    #expect(try await store.value(forKey: "visits") == [2])
    try await store.close()
  }
}
