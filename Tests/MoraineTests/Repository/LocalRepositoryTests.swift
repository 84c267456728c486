import Foundation
import Moraine
import MoraineTesting
import SystemPackage
import Testing

struct Note: Codable, Identifiable, Hashable, Sendable {
  var id: Int
  var text: String
}

struct Tagged: Codable, Identifiable, Hashable, Sendable {
  var id: String
  var number = 0
}

struct Document: Codable, Identifiable, Hashable, Sendable {
  var id: UUID
  var title: String
}

/// A folder that is removed with the test.
final class Folder: Sendable {
  let url: URL

  init(in parent: URL = URL(fileURLWithPath: NSTemporaryDirectory())) throws {
    url = parent.appendingPathComponent("moraine-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { do { try FileManager.default.removeItem(at: url) } catch {} }
}

/// The four methods: save, find, delete and load.
@Suite(.timeLimit(.minutes(10))) struct LocalRepositoryTests {
  @Test func savedModelsAreFoundLoadedAndDeleted() async throws {
    let folder = try Folder()
    do {
      let notes = try LocalRepository<Note>(directory: folder.url, filename: "notes")
      #expect(try await notes.loadAll() == [])
      #expect(try await notes.find(by: 1) == nil)
      for number in 0..<10 { try await notes.save(Note(id: number, text: "note \(number)")) }
      try await notes.save(Note(id: 3, text: "again"))
      try await notes.delete(4)
      try await notes.delete(99)
      #expect(try await notes.find(by: 3)?.text == "again")
      #expect(try await notes.find(by: 4) == nil)
      #expect(try await notes.count() == 9)
      try await notes.keyspace.store.close()
    }
    let again = try LocalRepository<Note>(directory: folder.url, filename: "notes")
    let all = try await again.loadAll()
    #expect(Set(all.map(\.id)) == Set(0..<10).subtracting([4]))
    #expect(all.last == Note(id: 3, text: "again"), "the model that was saved last comes last")
    #expect(try await again.find(by: 5) == Note(id: 5, text: "note 5"))
  }

  /// All instances that name the same place share one store, and none has outdated models.
  @Test func severalInstancesAgreeAtOnce() async throws {
    let folder = try Folder()
    let one = try LocalRepository<Note>(directory: folder.url)
    let other = try LocalRepository<Note>(directory: folder.url)
    for round in 0..<50 {
      let (writer, reader) = round % 2 == 0 ? (one, other) : (other, one)
      try await writer.save(Note(id: round % 5, text: "\(round)"))
      #expect(try await reader.find(by: round % 5)?.text == "\(round)")
      if round % 7 == 0 {
        try await writer.delete(round % 5)
        #expect(try await reader.find(by: round % 5) == nil)
      }
    }
  }

  @Test func tenRepositoriesShareOneStore() async throws {
    let folder = try Folder()
    let store = try Store(at: FilePath(folder.url.appendingPathComponent("all.moraine").path))
    for number in 0..<10 {
      let notes = try LocalRepository<Note>(in: store, named: "notes \(number)")
      try await notes.save(Note(id: 7, text: "\(number)"))
    }
    for number in 0..<10 {
      let notes = try LocalRepository<Note>(in: store, named: "notes \(number)")
      #expect(try await notes.loadAll() == [Note(id: 7, text: "\(number)")])
    }
    try await store.close()
  }

  @Test(arguments: [
    "", "a", "a/b", "../x", "é", "\u{0}", "👨‍👩‍👧", String(repeating: "x", count: 60_000),
  ])
  func anyTextIsAnID(id: String) async throws {
    let repository = LocalRepository<Tagged>.inMemory()
    try await repository.save(Tagged(id: id, number: 1))
    try await repository.save(Tagged(id: id + "~", number: 2))
    #expect(try await repository.find(by: id)?.number == 1)
    try await repository.delete(id)
    #expect(try await repository.loadAll().map(\.number) == [2])
  }

  @Test func aUUIDIsAnID() async throws {
    let folder = try Folder()
    let id = UUID()
    let documents = try LocalRepository<Document>(directory: folder.url)
    try await documents.save(Document(id: id, title: "first"))
    #expect(try await documents.find(by: id)?.title == "first")
    var changes = documents.changes(since: nil).makeAsyncIterator()
    try await documents.delete(id)
    guard case .deleted(let gone) = try await changes.next() else {
      Issue.record("no deletion")
      return
    }
    #expect(gone == id)
  }

  @Test func aBatchIsAllOrNothing() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "before")])
    try await notes.save(contentsOf: [
      Note(id: 1, text: "a"), Note(id: 2, text: "b"), Note(id: 1, text: "c"),
    ])
    #expect(try await notes.find(by: 1)?.text == "c", "the last model with an id counts")
    #expect(try await notes.count() == 2)
    let tooLong = Tagged(id: String(repeating: "x", count: 70_000))
    let tagged = LocalRepository<Tagged>.inMemory()
    let error = await #expect(throws: StoreError.self) {
      try await tagged.save(contentsOf: [Tagged(id: "a"), tooLong])
    }
    #expect(error?.code == .keyTooLarge)
    #expect(try await tagged.loadAll() == [])
    try await notes.delete(contentsOf: [1, 2, 3])
    #expect(try await notes.loadAll() == [])
  }

  /// Regression: the transaction began before the models were saved, and did not see them.
  @Test func transactionSeesTheModelsThatItsRepositoryWasCreatedWith() async throws {
    let first = [Note(id: 1, text: "a"), Note(id: 2, text: "b")]
    let found = LocalRepository<Note>.inMemory(first)
    let note = try await found.keyspace.store.transaction { transaction in
      try await found.find(by: 1, in: transaction)
    }
    #expect(note == first[0])
    let loaded = LocalRepository<Note>.inMemory(first)
    let notes = try await loaded.keyspace.store.transaction { transaction in
      try await loaded.loadAll(in: transaction)
    }
    #expect(notes == first)
    // The second attempt is no retry.
    let changed = LocalRepository<Note>.inMemory(first)
    try await changed.keyspace.store.transaction(retries: 0) { transaction in
      guard var note = try await changed.find(by: 2, in: transaction) else { return }
      note.text += "c"
      try await changed.save(note, in: transaction)
    }
    #expect(try await changed.find(by: 2)?.text == "bc")
    // Also a body that catches each error runs again.
    let caught = LocalRepository<Note>.inMemory(first)
    let text = try await caught.keyspace.store.transaction {
      (transaction) async throws -> String? in
      do { return try await caught.find(by: 1, in: transaction)?.text } catch { return "caught" }
    }
    #expect(text == "a")
  }

  @Test(arguments: ["", ".", "..", "a/b", "/etc/passwd", "a\u{0}b"])
  func aFilenameIsNoPath(name: String) throws {
    let folder = try Folder()
    #expect(throws: StoreError.self) {
      try LocalRepository<Note>(directory: folder.url, filename: name)
    }
  }

  @Test func changesComeFromEveryInstance() async throws {
    let folder = try Folder()
    let one = try LocalRepository<Note>(directory: folder.url)
    let other = try LocalRepository<Note>(directory: folder.url)
    var iterator = one.changes.makeAsyncIterator()
    try await other.save(Note(id: 1, text: "a"))
    try await other.delete(1)
    guard case .saved(let note) = try await iterator.next() else {
      Issue.record("nothing saved")
      return
    }
    #expect(note == Note(id: 1, text: "a"))
    guard case .deleted(1) = try await iterator.next() else {
      Issue.record("nothing deleted")
      return
    }
    #expect(iterator.cursor?.sequence.rawValue == 2)
  }
}
