import Moraine
import MoraineHummingbird
import ServerTesting
import Synchronization
import Testing

/// Many requests at the same time to a server with a store on disk, whose writes are durable before
/// they are answered.
@Suite(.timeLimit(.minutes(5)), .serialized) struct LoadTests {
  private let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder() }

  /// Opens the store, serves it, and closes it.
  private func serve<Result>(
    _ body: @escaping @Sendable (Client) async throws -> Result
  ) async throws -> Result {
    try await withStore(at: folder.url) { store in
      let keyspace = try store.keyspace(named: "sessions")
      return try await withServer(MorainePersistDriver(in: keyspace, durability: .sync), body)
    }
  }

  @Test func ofRacingRegistrationsOneSucceeds() async throws {
    let (userCount, racerCount) = (50, 24)
    try await serve { client in
      let statuses = try await withThrowingTaskGroup { group in
        for racer in 0..<racerCount {
          for user in 0..<userCount {
            // The racers meet at different users.
            let user = (user + racer * 7) % userCount
            group.addTask { (user, try await client.register("user-\(user)")) }
          }
        }
        return try await group.reduce(into: [Int: [UInt]]()) { $0[$1.0, default: []].append($1.1) }
      }
      #expect(statuses.count == userCount)
      for (user, statuses) in statuses {
        #expect(statuses.filter { $0 == 201 }.count == 1, "user \(user)")
        #expect(statuses.filter { $0 == 409 }.count == racerCount - 1, "user \(user)")
      }
    }
    try await serve { client async throws in
      for user in 0..<userCount { #expect(try await client.register("user-\(user)") == 409) }
    }
  }

  /// Each user works with sessions of its own, at the same time as the others.
  @Test func nothingIsLostOrReturnedToAnotherUser() async throws {
    let (userCount, roundCount) = (64, 15)
    let sessions = try await serve { client in
      try await withThrowingTaskGroup { group in
        for user in 0..<userCount {
          group.addTask {
            let name = "user-\(user)"
            #expect(try await client.register(name) == 201)
            let (kept, ended) = (try await client.logIn(name), try await client.logIn(name))
            for round in 1...roundCount {
              for token in [kept, ended] {
                let note = "\(name) \(token) \(round)"
                #expect(
                  try await client.send("PUT", "/sessions/\(token)/note", note).status == 204)
                #expect(try await client.send("GET", "/sessions/\(token)/note").text == note)
              }
            }
            #expect(try await client.send("GET", "/sessions/\(kept)").text.contains("\"\(name)\""))
            #expect(try await client.send("DELETE", "/sessions/\(ended)").status == 204)
            #expect(try await client.send("GET", "/sessions/\(ended)").status == 404)
            return (name: name, kept: kept, ended: ended)
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
    }
    #expect(sessions.count == userCount)
    try await serve { client in
      for (name, kept, ended) in sessions {
        let note = try await client.send("GET", "/sessions/\(kept)/note")
        #expect(note == Client.Answer(status: 200, text: "\(name) \(kept) \(roundCount)"))
        #expect(try await client.send("GET", "/sessions/\(kept)").text.contains("\"\(name)\""))
        #expect(try await client.send("GET", "/sessions/\(ended)").status == 404)
        #expect(try await client.register(name) == 409)
      }
    }
  }

  /// The numbers of a note whose writes have begun, and have been answered.
  private final class Progress: Sendable {
    private let numbers = Mutex((begun: 0, answered: 0))

    func begin(_ number: Int) { numbers.withLock { $0.begun = number } }
    func answer(_ number: Int) { numbers.withLock { $0.answered = number } }
    var begun: Int { numbers.withLock { $0.begun } }
    var answered: Int { numbers.withLock { $0.answered } }
  }

  /// One client writes 1, 2, 3, … into a note, and others read it. A reader must see at least the
  /// number that was answered before its request, and at most the one that has begun after it.
  @Test func noReaderSeesAnOlderNoteThanTheLastOneAnswered() async throws {
    let (noteCount, lastNumber, readerCount) = (8, 60, 4)
    try await serve { client in
      #expect(try await client.register("ada") == 201)
      try await withThrowingTaskGroup { group in
        for _ in 0..<noteCount {
          let path = "/sessions/\(try await client.logIn("ada"))/note"
          _ = try await client.send("PUT", path, "0")
          let progress = Progress()
          group.addTask { () async throws in
            for number in 1...lastNumber {
              progress.begin(number)
              #expect(try await client.send("PUT", path, "\(number)").status == 204)
              progress.answer(number)
            }
          }
          for _ in 0..<readerCount {
            group.addTask {
              var least = 0
              while least < lastNumber {
                least = max(least, progress.answered)
                let seen = try #require(Int(try await client.send("GET", path).text))
                #expect((least...progress.begun).contains(seen))
                // A reader does not go back either.
                least = max(least, seen)
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }
}
