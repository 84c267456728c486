import Foundation
import Moraine
import Notes
import Testing

/// The routes of the notes server, over HTTP.
@Suite(.timeLimit(.minutes(2))) struct NotesRoutesTests {
  private let tested: TestedNotes

  init() throws { tested = try TestedNotes() }

  @Test func aUserHasTheNotesThatTheUserWrote() async throws {
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      let bob = try await Browser.logIn(address, as: "bob")
      let note = try await ada.add("Buy salt")
      #expect(note.owner == "ada")
      #expect(try await ada.texts() == ["Buy salt"])
      #expect(try await bob.texts() == [])
      let path = "/notes/\(note.id)"
      #expect(try await bob.send("PUT", path, ["text": "Buy sugar"]).status == 404)
      #expect(try await bob.send("DELETE", path).status == 404)
      #expect(try await ada.texts() == ["Buy salt"])
      #expect(try await ada.send("PUT", path, ["text": "Buy sugar"]).note().text == "Buy sugar")
      #expect(try await ada.texts() == ["Buy sugar"])
      #expect(try await ada.send("DELETE", path).status == 204)
      #expect(try await ada.send("DELETE", path).status == 404)
      #expect(try await ada.texts() == [])
    }
  }

  @Test func theNoteThatWasChangedLastIsTheFirst() async throws {
    let clock = tested.clock
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      var notes: [Note] = []
      for text in ["one", "two", "three"] {
        notes.append(try await ada.add(text))
        clock.advance(by: .seconds(1))
      }
      #expect(try await ada.texts() == ["three", "two", "one"])
      _ = try await ada.send("PUT", "/notes/\(notes[0].id)", ["text": "first"])
      #expect(try await ada.texts() == ["first", "three", "two"])
    }
  }

  @Test func aSearchFindsBeginningsOfWords() async throws {
    let clock = tested.clock
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      for text in ["Buy salt", "Salz und Brot, sal-volatile", "Basalt"] {
        _ = try await ada.add(text)
        clock.advance(by: .seconds(1))
      }
      #expect(try await ada.texts(matching: "SAL") == ["Salz und Brot, sal-volatile", "Buy salt"])
      #expect(try await ada.texts(matching: "sal+bu") == ["Buy salt"])
      #expect(try await ada.texts(matching: "salty") == [])
    }
  }

  @Test func queriesReadAnIndex() async throws {
    let book = tested.book
    for number in 0..<100 {
      _ = try await book.add("number\(number)", of: number < 90 ? "ada" : "bob")
    }
    let all = try await book.notes(of: "bob").explain()
    #expect(all.index == "owner, changed" && all.candidateCount == 10 && !all.isSortingInMemory)
    let found = try await book.notes(of: "ada", matching: "number7").explain()
    #expect(found.index == "owned words" && found.candidateCount == 11 && !found.isFiltering)
  }

  /// Each note is edited and deleted at the same time. The delete counts, whichever is the first.
  @Test func anEditDoesNotBringADeletedNoteBack() async throws {
    let book = tested.book
    try await withThrowingTaskGroup { group in
      for number in 0..<200 {
        let id = try await book.add("note \(number)", of: "ada").id
        group.addTask { _ = try await book.edit(id, "edited", of: "ada") }
        group.addTask { () async throws in #expect(try await book.delete(id, of: "ada")) }
      }
      try await group.waitForAll()
    }
    #expect(try await book.notes(of: "ada").count() == 0)
  }

  @Test func anExpiredSessionIsRefused() async throws {
    let clock = tested.clock
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      let note = try await ada.add("Buy salt")
      clock.advance(by: .milliseconds(59_999))
      let report = #"{"user":"ada","remainingSeconds":0}"#
      let session = try await ada.send("GET", "/session")
      #expect(Set(session.text) == Set(report) && session.text.count == report.count)
      clock.advance(by: .milliseconds(1))
      let requests = [
        ("GET", "/session"), ("GET", "/notes"), ("GET", "/notes/events"), ("POST", "/notes"),
        ("PUT", "/notes/\(note.id)"), ("DELETE", "/notes/\(note.id)"),
      ]
      for (method, path) in requests {
        #expect(try await ada.send(method, path, ["text": "x"]).status == 401, "\(method) \(path)")
        #expect(try await Browser(address).send(method, path).status == 401, "\(method) \(path)")
      }
      // The notes stay.
      #expect(try await Browser.logIn(address, as: "ada").texts() == ["Buy salt"])
    }
  }

  @Test func loggingOutEndsOneSession() async throws {
    try await tested.serve { address async throws in
      let (first, second) = (
        try await Browser.logIn(address, as: "ada"), try await Browser.logIn(address, as: "ada")
      )
      #expect(try await first.send("DELETE", "/session").status == 204)
      #expect(try await first.send("GET", "/session").status == 401)
      #expect(try await second.send("GET", "/session").status == 200)
    }
  }

  @Test func misuseIsAnswered() async throws {
    try await tested.serve { address async throws in
      for name in ["", "a b", "a;b", String(repeating: "n", count: 33)] {
        #expect(try await Browser(address).send("POST", "/session", ["name": name]).status == 400)
      }
      let ada = try await Browser.logIn(address, as: "ada")
      let words = (0..<1000).map { String(1000 + $0, radix: 36) }.joined(separator: " ")
      let longest = words + String(repeating: ".", count: 4000 - words.count)
      #expect(try await ada.add(longest).text == longest)
      #expect(try await ada.send("POST", "/notes", ["text": longest + "."]).status == 413)
      #expect(try await ada.send("POST", "/notes", ["text": ""]).status == 400)
      #expect(try await ada.send("POST", "/notes", ["name": "x"]).status == 400)
      #expect(try await ada.send("PUT", "/notes/7", ["text": "x"]).status == 400)
      #expect(try await ada.texts(matching: "rs").count == 1)
    }
  }

  @Test func thePageIsServed() async throws {
    try await tested.serve { address async throws in
      let page = try await Browser(address).send("GET", "/")
      #expect(page.status == 200 && page.text.contains("<title>Notes</title>"))
      // Nothing comes from another site.
      #expect(!page.text.contains("http:") && !page.text.contains("https:"))
    }
  }
}
