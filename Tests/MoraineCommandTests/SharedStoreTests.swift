import Foundation
import Testing

/// Commands that write, beside a process that has the store open as a shared one.
@Suite(.timeLimit(.minutes(10))) struct SharedStoreCommandTests {
  let place: Place

  init() throws { place = try Place() }

  @Test func commandsWriteIntoAStoreThatIsShared() async throws {
    let store = place.store
    let lines = try place.file("lines.jsonl", Array("{\"id\":\"l\",\"n\":1}\n".utf8))
    _ = try await place.talk("--shared") { talk in
      #expect(try await talk.ask("put 6b 76") == "ok 1")
      let put = try await Moraine.run("put", store, "p", "from a command")
      #expect(put.code == 0, "\(put)")
      #expect(try await talk.ask("get 70") == "value 66726f6d206120636f6d6d616e64")
      let deleted = try await Moraine.run("delete", store, "k")
      #expect(deleted.code == 0, "\(deleted)")
      #expect(try await talk.ask("get 6b") == "none")
      let loaded = try await Moraine.run("load", store, lines)
      #expect(loaded.code == 0, "\(loaded)")
      #expect(try await talk.ask("get 6c")?.hasPrefix("value ") == true)
      let compacted = try await Moraine.run("compact", store)
      #expect(compacted.code == 0, "\(compacted)")
      // The other process still writes.
      #expect(try await talk.ask("put 6b 76")?.hasPrefix("ok") == true)
      #expect(try await talk.ask("close") == "ok")
    }
    // The store was shared: a command opens it as a shared one, also when it is alone.
    #expect(try await Moraine.run("put", store, "q", "alone").code == 0)
    #expect(try await Moraine.run("get", store, "p").text == "from a command")
    #expect(try await Moraine.run("get", store, "q").text == "alone")
  }

  @Test func commandsWaitForNoStoreThatIsOpenExclusively() async throws {
    let store = place.store
    _ = try await place.talk { talk in
      #expect(try await talk.ask("put 6b 76") == "ok 1")
      let put = try await Moraine.run("put", store, "p", "v")
      #expect(put.code == 4, "\(put)")
      #expect(try await talk.ask("close") == "ok")
    }
    #expect(try await Moraine.run("put", store, "p", "v").code == 0)
    #expect(!FileManager.default.fileExists(atPath: store + "/SHARED"))
  }
}
