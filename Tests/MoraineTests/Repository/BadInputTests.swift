import Foundation
import Moraine
import SystemPackage
import Testing

/// Misuse of a repository, and its effects.
@Suite(.timeLimit(.minutes(10))) struct BadInputTests {
  @Test func anIDMayHaveAnyBytes() async throws {
    let folder = try Folder()
    let ids = [
      "", "\0", "a\0b", "line\nbreak", "\u{7F}\u{1}", "é", "e\u{301}", "👩‍👩‍👧‍👦", "../../etc/passwd",
      #"{"id":1}"#, String(repeating: "x", count: 60_000), "\u{FEFF}", "\u{10FFFF}",
    ]
    var saved: [Tagged] = []
    do {
      let things = try LocalRepository<Tagged>(directory: folder.url)
      for (number, id) in ids.enumerated() { try await things.save(Tagged(id: id, number: number)) }
      saved = try await things.loadAll()
      try await things.keyspace.store.close()
    }
    let again = try LocalRepository<Tagged>(directory: folder.url)
    #expect(try await again.loadAll() == saved)
    #expect(saved.count == ids.count - 1, "a composed letter and a decomposed one are one id")
    for thing in saved { #expect(try await again.find(by: thing.id) == thing, "\(thing.id)") }
    let error = await #expect(throws: StoreError.self) {
      try await again.save(Tagged(id: String(repeating: "y", count: 70_000)))
    }
    #expect(error?.code == .keyTooLarge)
    #expect(try await again.count() == saved.count)
  }

  @Test func lastOfTwoModelsWithTheSameIDIsKept() async throws {
    let things = LocalRepository<Tagged>.inMemory()
    try await things.save(contentsOf: [Tagged(id: "a", number: 1), Tagged(id: "a", number: 2)])
    #expect(try await things.loadAll() == [Tagged(id: "a", number: 2)])
  }

  @Test func openingNamesADirectoryThatIsMissing() throws {
    let folder = try Folder()
    let missing = folder.url.appendingPathComponent("missing")
    let error = #expect(throws: StoreError.self) {
      try LocalRepository<Note>(directory: missing)
    }
    #expect(error?.code == .io && error?.errno == .noSuchFileOrDirectory)
    #expect(error?.file?.contains("missing") == true)
    #expect(!FileManager.default.fileExists(atPath: missing.path))
  }

  /// Nothing is written elsewhere, and saves into the missing directory do not succeed for ever.
  @Test func aDirectoryThatVanishesIsNoticed() async throws {
    let folder = try Folder()
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    let path = FilePath(folder.url.path).appending("notes")
    let store = try Store(at: path, configuration: configuration)
    let notes = try LocalRepository<Note>(in: store, named: "notes")
    try await notes.save(Note(id: 1, text: "before"))
    try FileManager.default.removeItem(at: folder.url.appendingPathComponent("notes"))
    var seen: StoreError?
    for number in 0..<10_000 where seen == nil {
      do throws(StoreError) {
        try await notes.save(Note(id: number, text: String(repeating: "x", count: 100)))
      } catch {
        seen = error
      }
    }
    #expect(
      seen?.file != nil && seen?.code == .storeReplaced, "\(String(describing: seen))")
    #expect(!FileManager.default.fileExists(atPath: path.string))
    // Models that were read once are still in memory; every other call throws the error.
    await #expect(throws: StoreError.self) { try await notes.save(Note(id: 2, text: "later")) }
  }

  /// Another program stores other models under the same name.
  @Test func modelsOfAnotherTypeAreNamedAndStay() async throws {
    let folder = try Folder()
    let path = FilePath(folder.url.path).appending("shared")
    let store = try Store(at: path)
    let notes = try LocalRepository<Note>(in: store, named: "things")
    try await notes.save(Note(id: 7, text: "a note"))
    let others = try LocalRepository<Document>(in: store, named: "things")
    let error = await #expect(throws: StoreError.self) { try await others.loadAll() }
    #expect(error?.code == .decodingFailed)
    #expect(error?.message.contains("'7'") == true && error?.file?.contains("things") == true)
    #expect(try await notes.find(by: 7) == Note(id: 7, text: "a note"))
    try await store.close()
  }
}
