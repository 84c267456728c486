import Hummingbird
import HummingbirdTesting
import MoraineTesting
import Testing

/// The cases of Hummingbird's tests of its persist framework (`PersistTests`), written again. Each
/// case tests Hummingbird's driver in memory and Moraine's, with requests to the router and with
/// requests to a server. A manual clock replaces the waiting.
@Suite(.timeLimit(.minutes(2))) struct PersistCases {
  private struct Sample: Codable, Sendable {
    let text: String
  }

  private let clock = ManualClock(startingAt: 1_700_000_000_000)

  private func router(_ persist: any PersistDriver) -> Router<BasicRequestContext> {
    let router = Router()
    router.put("values/:key") { request, context -> HTTPResponse.Status in
      let text = String(buffer: try await request.body.collect(upTo: 1024))
      let seconds = request.uri.queryParameters.get("seconds", as: Int.self)
      try await persist.set(
        key: try context.parameters.require("key"), value: text,
        expires: seconds.map { Duration.seconds($0) })
      return .ok
    }
    router.post("values/:key") { request, context -> HTTPResponse.Status in
      let text = String(buffer: try await request.body.collect(upTo: 1024))
      do {
        try await persist.create(key: try context.parameters.require("key"), value: text)
      } catch let error as PersistError where error == .duplicate {
        throw HTTPError(.conflict)
      }
      return .created
    }
    router.get("values/:key") { _, context -> String? in
      let key = try context.parameters.require("key")
      do { return try await persist.get(key: key, as: String.self) } catch let error
        as PersistError where error == .invalidConversion
      {
        throw HTTPError(.unprocessableContent)
      }
    }
    router.get("values/:key/seconds") { _, context -> String? in
      let key = try context.parameters.require("key")
      let found = try await persist.getWithTTL(key: key, as: String.self)
      return found?.ttl.map { "\($0.components.seconds)" }
    }
    router.delete("values/:key") { _, context -> HTTPResponse.Status in
      try await persist.remove(key: try context.parameters.require("key"))
      return .noContent
    }
    router.put("samples/:key") { request, context -> HTTPResponse.Status in
      let text = String(buffer: try await request.body.collect(upTo: 1024))
      try await persist.set(
        key: try context.parameters.require("key"), value: Sample(text: text))
      return .ok
    }
    router.get("samples/:key") { _, context -> String? in
      let key = try context.parameters.require("key")
      return try await persist.get(key: key, as: Sample.self)?.text
    }
    return router
  }

  /// Serves the routes with a new driver, which is one of the application's services.
  private func serve(
    _ kind: DriverKind, _ transport: Transport,
    _ body: @Sendable (any TestClientProtocol) async throws -> Void
  ) async throws {
    let persist = try kind.driver(clock)
    let application = Application(router: router(persist), services: [persist])
    try await application.test(transport.setup, body)
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aValueThatWasSetIsReturned(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      #expect(try await client.send(.get, "/values/a").status == 204)
      #expect(try await client.send(.put, "/values/a", "first").status == 200)
      #expect(try await client.send(.get, "/values/a") == Answer(200, "first"))
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aValueThatWasCreatedIsReturned(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      #expect(try await client.send(.post, "/values/a", "first").status == 201)
      #expect(try await client.send(.get, "/values/a") == Answer(200, "first"))
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aKeyIsCreatedOnce(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      #expect(try await client.send(.post, "/values/a", "first").status == 201)
      #expect(try await client.send(.post, "/values/a", "second").status == 409)
      #expect(try await client.send(.get, "/values/a") == Answer(200, "first"))
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func theSecondSetReplacesTheFirst(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/a", "first")
      #expect(try await client.send(.put, "/values/a", "second").status == 200)
      #expect(try await client.send(.get, "/values/a") == Answer(200, "second"))
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aValueEndsAfterItsLifetime(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/short?seconds=0", "first")
      _ = try await client.send(.put, "/values/long?seconds=10", "second")
      clock.advance(by: .seconds(1))
      #expect(try await client.send(.get, "/values/short").status == 204)
      #expect(try await client.send(.get, "/values/long") == Answer(200, "second"))
      clock.advance(by: .milliseconds(8999))
      #expect(try await client.send(.get, "/values/long") == Answer(200, "second"))
      clock.advance(by: .milliseconds(2))
      #expect(try await client.send(.get, "/values/long").status == 204)
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func theRemainingTimeIsReturned(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/a?seconds=10", "first")
      #expect(try await client.send(.get, "/values/a/seconds") == Answer(200, "10"))
      clock.advance(by: .seconds(3))
      #expect(try await client.send(.get, "/values/a/seconds") == Answer(200, "7"))
      _ = try await client.send(.put, "/values/b", "first")
      #expect(try await client.send(.get, "/values/b/seconds").status == 204)
      #expect(try await client.send(.get, "/values/c/seconds").status == 204)
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aCodableValueIsReturned(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/samples/a", "\"quoted\" \u{1F426}")
      #expect(try await client.send(.get, "/samples/a") == Answer(200, "\"quoted\" \u{1F426}"))
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func anotherTypeIsAnInvalidConversion(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/samples/a", "first")
      #expect(try await client.send(.get, "/values/a").status == 422)
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func aRemovedValueIsGone(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/a", "first")
      #expect(try await client.send(.delete, "/values/a").status == 204)
      #expect(try await client.send(.get, "/values/a").status == 204)
      #expect(try await client.send(.delete, "/values/a").status == 204)
    }
  }

  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func anExpiredKeyIsSetAgain(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/a?seconds=0", "first")
      clock.advance(by: .seconds(1))
      #expect(try await client.send(.get, "/values/a").status == 204)
      #expect(try await client.send(.put, "/values/a?seconds=10", "second").status == 200)
      #expect(try await client.send(.get, "/values/a") == Answer(200, "second"))
    }
  }

  /// Both drivers look for expired entries every second of the manual clock.
  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func tidyingLeavesEntriesThatHaveNotExpired(
    _ kind: DriverKind, _ transport: Transport
  ) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/short?seconds=1", "first")
      _ = try await client.send(.put, "/values/long?seconds=100", "second")
      for _ in 0..<20 {
        clock.advance(by: .seconds(1))
        #expect(try await client.send(.get, "/values/long") == Answer(200, "second"))
      }
      #expect(try await client.send(.get, "/values/short").status == 204)
    }
  }

  /// The documentation of the protocol requires this. Hummingbird has no test of it.
  @Test(arguments: DriverKind.allCases, Transport.allCases)
  func setWithoutALifetimeKeepsTheExpiry(_ kind: DriverKind, _ transport: Transport) async throws {
    try await serve(kind, transport) { client async throws in
      _ = try await client.send(.put, "/values/a?seconds=10", "first")
      clock.advance(by: .seconds(4))
      _ = try await client.send(.put, "/values/a", "second")
      #expect(try await client.send(.get, "/values/a") == Answer(200, "second"))
      #expect(try await client.send(.get, "/values/a/seconds") == Answer(200, "6"))
      _ = try await client.send(.put, "/values/a?seconds=20", "third")
      #expect(try await client.send(.get, "/values/a/seconds") == Answer(200, "20"))
      clock.advance(by: .seconds(21))
      #expect(try await client.send(.get, "/values/a").status == 204)
    }
  }
}

/// Status and text of a response.
struct Answer: Equatable {
  let status: Int
  let text: String

  init(_ status: Int, _ text: String) {
    (self.status, self.text) = (status, text)
  }
}

extension TestClientProtocol {
  func send(
    _ method: HTTPRequest.Method, _ path: String, _ text: String? = nil
  ) async throws -> Answer {
    let response = try await executeRequest(
      uri: path, method: method, headers: [:], body: text.map { ByteBuffer(string: $0) })
    return Answer(response.status.code, String(buffer: response.body))
  }
}
