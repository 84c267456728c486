import Testing

/// The events that browsers receive.
@Suite(.timeLimit(.minutes(2))) struct NoteEventsTests {
  private let tested: TestedNotes

  init() throws { tested = try TestedNotes() }

  @Test func twoBrowsersSeeEachOthersChanges() async throws {
    let clock = tested.clock
    try await tested.serve { address async throws in
      let browsers = [
        try await Browser.logIn(address, as: "ada"), try await Browser.logIn(address, as: "ada"),
      ]
      var readers: [NoteEventReader] = []
      for browser in browsers { readers.append(try await browser.events()) }
      func everyoneSees(_ texts: [String]) async throws {
        for index in readers.indices {
          #expect(try await readers[index].wait(for: texts), "browser \(index): \(texts)")
        }
      }
      try await everyoneSees([])
      let note = try await browsers[0].add("Buy salt")
      try await everyoneSees(["Buy salt"])
      clock.advance(by: .seconds(1))
      _ = try await browsers[1].add("Call Bob")
      try await everyoneSees(["Call Bob", "Buy salt"])
      clock.advance(by: .seconds(1))
      _ = try await browsers[1].send("PUT", "/notes/\(note.id)", ["text": "Buy sugar"])
      try await everyoneSees(["Buy sugar", "Call Bob"])
      _ = try await browsers[0].send("DELETE", "/notes/\(note.id)")
      try await everyoneSees(["Call Bob"])
    }
  }

  @Test func eventsHaveTheNotesOfOneUserThatMatch() async throws {
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      let bob = try await Browser.logIn(address, as: "bob")
      var events = try await ada.events(matching: "sal")
      #expect(try await events.next() == .texts([]))
      _ = try await bob.add("Buy salt")
      _ = try await ada.add("Buy sugar")
      let note = try await ada.add("Buy more salt")
      #expect(try await events.next() == .texts(["Buy more salt"]))
      _ = try await ada.send("PUT", "/notes/\(note.id)", ["text": "Buy pepper"])
      #expect(try await events.next() == .texts([]))
    }
  }

  @Test func eventsEndWithTheSession() async throws {
    let clock = tested.clock
    try await tested.serve { address async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      var events = try await ada.events()
      #expect(try await events.next() == .texts([]))
      clock.advance(by: .seconds(40))
      let later = try await Browser.logIn(address, as: "ada")
      var otherEvents = try await later.events()
      #expect(try await otherEvents.next() == .texts([]))
      clock.advance(by: .seconds(20))
      #expect(try await events.next() == .end)
      #expect(try await events.next() == nil)
      _ = try await later.add("Buy salt")
      #expect(try await otherEvents.next() == .texts(["Buy salt"]))
      #expect(try await later.send("DELETE", "/session").status == 204)
      #expect(try await otherEvents.next() == .end)
      #expect(try await otherEvents.next() == nil)
    }
  }
}
