import Foundation
import Moraine
import Notes
import ServerTesting
import Subprocess
import Synchronization
import Testing

/// The built server: killed, restored from its archive, and ended in order.
@Suite(.timeLimit(.minutes(2))) struct NotesProcessTests {
  private let folder: TemporaryFolder
  private let server = ServerProcess("NotesServer")

  init() throws { folder = try TemporaryFolder() }

  private var store: String { folder.url.appendingPathComponent("store").path }
  private var archive: String { folder.url.appendingPathComponent("archive").path }

  private func serve(
    endingWith signal: Signal, with options: [String] = [],
    _ body: @Sendable (String, @escaping @Sendable () throws -> Void) async throws -> Void
  ) async throws {
    let code = try await server.serve(
      ["serve", store, "--port", "0"] + options, endingWith: signal, body)
    #expect(code == (signal == .kill ? -1 : 0))
  }

  /// A session, and the texts of the notes that the server has answered to it.
  private final class Answered: Sendable {
    private let storage = Mutex<(cookie: String?, texts: Set<String>)>((nil, []))

    var cookie: String? { storage.withLock { $0.cookie } }
    var texts: Set<String> { storage.withLock { $0.texts } }

    func logIn(_ cookie: String?) { storage.withLock { $0.cookie = cookie } }

    /// Adds a text, and returns the number of texts.
    func add(_ text: String) -> Int {
      storage.withLock { answered in
        answered.texts.insert(text)
        return answered.texts.count
      }
    }
  }

  /// Lets clients of one user add notes until the server is killed.
  ///
  /// - Parameter count: the number of answers after which the server is killed.
  private func addNotesUntilKilled(
    count: Int, with options: [String] = []
  ) async throws -> Answered {
    let answered = Answered()
    try await serve(endingWith: .kill, with: options) { address, kill async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      answered.logIn(ada.cookie)
      await withTaskGroup { group in
        for client in 0..<4 {
          group.addTask {
            // The kill ends the loop with an error of the connection.
            do {
              for round in 0... {
                let text = "note \(client)-\(round)"
                _ = try await ada.add(text)
                if answered.add(text) == count { try kill() }
              }
            } catch {}
          }
        }
      }
    }
    #expect(answered.texts.count >= count)
    return answered
  }

  @Test func aKilledServerHasEverythingThatItAnswered() async throws {
    let answered = try await addNotesUntilKilled(count: 100)
    try await serve(endingWith: .terminate) { address, _ async throws in
      // The session has survived, too.
      let found = Set(try await Browser(address, cookie: answered.cookie).texts())
      #expect(answered.texts.subtracting(found) == [])
      // A note that was not answered may be there. Each client had at most one.
      #expect(found.subtracting(answered.texts).count <= 4)
    }
  }

  @Test func aLostDirectoryIsRestoredFromTheArchive() async throws {
    let answered = try await addNotesUntilKilled(
      count: 60, with: ["--archive", archive, "--create-archive"])
    try FileManager.default.removeItem(atPath: store)
    let restored = try await server.run(["restore", archive, store])
    #expect(restored.code == 0, "\(restored.errors)")
    try await serve(endingWith: .terminate, with: ["--archive", archive]) {
      address, _ async throws in
      let ada = Browser(address, cookie: answered.cookie)
      #expect(answered.texts.subtracting(try await ada.texts()) == [])
      // The restored store continues the archive.
      _ = try await ada.add("after")
    }
    try FileManager.default.removeItem(atPath: store)
    #expect(try await server.run(["restore", archive, store]).code == 0)
    try await serve(endingWith: .terminate) { address, _ async throws in
      #expect(try await Browser(address, cookie: answered.cookie).texts().first == "after")
    }
  }

  @Test func aChangeWithoutTheArchiveIsAnswered503AndArchivedLater() async throws {
    let (archive, aside) = (archive, archive + "-aside")
    try await serve(
      endingWith: .terminate, with: ["--archive", archive, "--create-archive"]
    ) { address, _ async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      _ = try await ada.add("first")
      try FileManager.default.moveItem(atPath: archive, toPath: aside)
      let refused = try await ada.send("POST", "/notes", ["text": "second"])
      #expect(refused.status == 503 && refused.text.contains("later"), "\(refused)")
      try FileManager.default.moveItem(atPath: aside, toPath: archive)
      // Reads do not need the archive, and the store has the change.
      #expect(Set(try await ada.texts()) == ["first", "second"])
      // Until the archive is found again.
      while try await ada.send("POST", "/notes", ["text": "third"]).status != 201 {}
    }
    try FileManager.default.removeItem(atPath: store)
    #expect(try await server.run(["restore", archive, store]).code == 0)
    try await serve(endingWith: .terminate) { address, _ async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      #expect(Set(try await ada.texts()) == ["first", "second", "third"])
    }
  }

  @Test func openPagesDoNotDelayTheEndOfTheServer() async throws {
    let archive = archive
    try await serve(
      endingWith: .terminate, with: ["--archive", archive, "--create-archive"]
    ) { address, end async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      var events = try await ada.events()
      #expect(try await events.next() == .texts([]))
      _ = try await ada.add("Buy salt")
      #expect(try await events.next() == .texts(["Buy salt"]))
      try end()
      #expect(try await events.next() == nil)
    }
    try await withStore(at: store) { store in
      #expect(await store.recoveryReport.wasClean)
    }
  }

  @Test func aClientThatReadsNothingDoesNotPreventTheEndOfTheServer() async throws {
    let client = try SilentClient()
    defer { client.end() }
    try await serve(endingWith: .terminate) { address, _ async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      let port = try #require(URL(string: address)?.port)
      try client.send(
        "GET /notes/events HTTP/1.1\r\nHost: notes\r\nCookie: \(ada.cookie ?? "")\r\n\r\n",
        toPort: UInt16(port))
      // Each event has all notes: together far more than the system keeps for the client.
      let text = String(repeating: "salt ", count: 800)
      for _ in 0..<200 { _ = try await ada.add(text) }
    }
  }

  /// Regression: the server answered each change with the promise that the archive would receive it.
  @Test func aServerWhoseArchiveIsDamagedEnds() async throws {
    let log = URL(fileURLWithPath: archive).appendingPathComponent("log")
    let code = try await server.serve(
      ["serve", store, "--port", "0", "--archive", archive, "--create-archive"],
      endingWith: .terminate
    ) { address, _ async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      _ = try await ada.add("first")
      let names = try FileManager.default.contentsOfDirectory(atPath: log.path)
      let last = try #require(names.compactMap { Int($0) }.max())
      // What stands in the place of the next commit is no commit.
      let digits = String(last + 1)
      let next = String(repeating: "0", count: 15 - digits.count) + digits
      try Data("damaged".utf8).write(to: log.appendingPathComponent(next))
      // The end of the server ends the loop with an error of the connection.
      do {
        while true { _ = try await ada.send("POST", "/notes", ["text": "second"]) }
      } catch {}
    }
    #expect(code == 1)
  }

  @Test func aSessionEndsAfterTheSecondsOfTheOption() async throws {
    try await serve(endingWith: .terminate, with: ["--session-seconds", "1"]) {
      address, _ async throws in
      let ada = try await Browser.logIn(address, as: "ada")
      // The default is half an hour, and the time limit of the test is lower.
      while try await ada.send("GET", "/session").status == 200 {}
      #expect(try await ada.send("GET", "/notes").status == 401)
    }
  }

  @Test func misuseIsAnswered() async throws {
    // A disk that is not mounted is no empty archive.
    let outcome = try await server.run(["serve", store, "--port", "0", "--archive", archive])
    #expect(outcome.code == 1 && outcome.errors.contains("unavailable"), "\(outcome)")
    #expect(try await server.run(["serve"]).code == 64)
    // Nothing is restored over a store.
    try await serve(endingWith: .terminate, with: ["--archive", archive, "--create-archive"]) {
      address, _ async throws in
      _ = try await Browser.logIn(address, as: "ada").add("Buy salt")
    }
    let refused = try await server.run(["restore", archive, store])
    #expect(refused.code == 1, "\(refused)")
    try await serve(endingWith: .terminate) { address, _ async throws in
      #expect(try await Browser.logIn(address, as: "ada").texts() == ["Buy salt"])
    }
  }
}
