import Foundation
import Moraine
import MoraineHummingbird
import MoraineTesting
import Testing

/// The routes of the session server, over HTTP.
@Suite(.timeLimit(.minutes(2))) struct SessionTests {
  private let clock = ManualClock(startingAt: 1_700_000_000_000)

  private func driver() throws -> MorainePersistDriver {
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    return MorainePersistDriver(in: try store.keyspace(named: "sessions"), clock: clock)
  }

  @Test func aSessionBelongsToItsUser() async throws {
    try await withServer(try driver()) { client in
      #expect(try await client.send("POST", "/users/ada/sessions").status == 404)
      #expect(try await client.register("ada") == 201)
      #expect(try await client.register("ada") == 409)
      let token = try await client.logIn("ada")
      #expect(token.count == 32)
      #expect(try await client.logIn("ada") != token)
      let answer = try await client.send("GET", "/sessions/\(token)")
      let session = try JSONSerialization.jsonObject(with: Data(answer.text.utf8))
      let expected: NSDictionary = ["user": "ada", "remainingSeconds": 1800]
      #expect(session as? NSDictionary == expected)
      #expect(try await client.send("GET", "/sessions/0").status == 404)
    }
  }

  @Test func aSessionEndsWithItsNote() async throws {
    try await withServer(try driver(), lifetime: .seconds(60)) { client in
      _ = try await client.register("ada")
      let token = try await client.logIn("ada")
      #expect(try await client.send("GET", "/sessions/\(token)/note").status == 204)
      clock.advance(by: .seconds(40))
      #expect(try await client.send("PUT", "/sessions/\(token)/note", "salt").status == 204)
      #expect(try await client.send("GET", "/sessions/\(token)/note").text == "salt")
      clock.advance(by: .seconds(20))
      #expect(try await client.send("GET", "/sessions/\(token)").status == 404)
      #expect(try await client.send("GET", "/sessions/\(token)/note").status == 404)
      #expect(try await client.send("PUT", "/sessions/\(token)/note", "salt").status == 404)
      // The user is no session, and stays.
      #expect(try await client.register("ada") == 409)
    }
  }

  @Test func aSessionEndsWhenItsUserLogsOut() async throws {
    try await withServer(try driver()) { client in
      _ = try await client.register("ada")
      let (token, other) = (try await client.logIn("ada"), try await client.logIn("ada"))
      _ = try await client.send("PUT", "/sessions/\(token)/note", "salt")
      #expect(try await client.send("DELETE", "/sessions/\(token)").status == 204)
      #expect(try await client.send("GET", "/sessions/\(token)/note").status == 404)
      #expect(try await client.send("GET", "/sessions/\(other)").status == 200)
    }
  }

  @Test func aLongNoteIsRefused() async throws {
    try await withServer(try driver()) { client in
      _ = try await client.register("ada")
      let token = try await client.logIn("ada")
      let longest = String(repeating: "n", count: 4096)
      #expect(try await client.send("PUT", "/sessions/\(token)/note", longest).status == 204)
      #expect(try await client.send("PUT", "/sessions/\(token)/note", longest + "n").status == 413)
      #expect(try await client.send("GET", "/sessions/\(token)/note").text == longest)
    }
  }
}
