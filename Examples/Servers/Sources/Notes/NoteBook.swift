import Foundation
import Moraine

/// The notes of all users, in a repository with two indexes.
///
/// ```swift
/// let book = try NoteBook(in: store)
/// let note = try await book.add("Buy salt", of: "ada")
/// let found = try await book.notes(of: "ada", matching: "sal").fetch()
/// ```
public struct NoteBook: Sendable {
  private static let longestList = 200

  private let store: Store
  private let repository: LocalRepository<Note>
  private let durability: Durability

  /// Creates a book. Reads and writes nothing.
  ///
  /// - Parameters:
  ///   - store: the store with the notes.
  ///   - durability: the state that a change has reached when its call returns.
  /// - Throws: `StoreError`, when the store does not accept another keyspace.
  public init(in store: Store, durability: Durability = .sync) throws {
    self.store = store
    self.durability = durability
    repository = try LocalRepository(
      in: store, named: "notes",
      indexes: [
        .index("owner, changed", on: \.owner, \.changed),
        .index("owned words", onEach: \.ownedWords),
      ],
      durability: durability)
  }

  /// Returns a query of a user's notes, the newest first. At most 200 notes are its result.
  ///
  /// - Parameter text: the beginnings of words that each note must contain; empty for all notes. The
  ///   query then reads the index of the words, and otherwise that of owner and time.
  public func notes(of owner: String, matching text: String = "") -> ModelQuery<Note> {
    let words = Note.words(of: text)
    var query = words.isEmpty ? repository.query(where: \.owner, is: owner) : repository.query()
    for word in words {
      let beginning = "\(owner) \(word)"
      query = query.where(any: \.ownedWords, in: beginning..<(beginning + "\u{10FFFF}"))
    }
    return query.sorted(by: \.changed, .descending).limit(Self.longestList)
  }

  /// Saves a new note.
  public func add(_ text: String, of owner: String) async throws -> Note {
    let note = Note(id: UUID(), owner: owner, text: text, changed: store.clock.milliseconds)
    try await repository.save(note)
    return note
  }

  /// Changes the text of a user's note. Of two edits at the same time, the later one counts.
  ///
  /// - Returns: the changed note; nil when the user has no note with this id.
  public func edit(_ id: UUID, _ text: String, of owner: String) async throws -> Note? {
    // A transaction: a note that is deleted between the find and the save stays deleted.
    try await store.transaction(retries: .max, durability: durability) { transaction in
      guard var note = try await repository.find(by: id, in: transaction), note.owner == owner
      else { return nil }
      note.text = text
      note.changed = store.clock.milliseconds
      try await repository.save(note, in: transaction)
      return note
    }
  }

  /// Deletes a user's note.
  ///
  /// - Returns: whether the user had a note with this id.
  public func delete(_ id: UUID, of owner: String) async throws -> Bool {
    try await store.transaction(retries: .max, durability: durability) { transaction in
      guard try await repository.find(by: id, in: transaction)?.owner == owner else {
        return false
      }
      try await repository.delete(id, in: transaction)
      return true
    }
  }
}
