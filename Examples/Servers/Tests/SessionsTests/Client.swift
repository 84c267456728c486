import AsyncHTTPClient
import Foundation
import Hummingbird
import HummingbirdTesting
import MoraineHummingbird
import Sessions

/// An HTTP client with many connections to one server.
struct Client: Sendable {
  /// Status and text of a response.
  struct Answer: Equatable {
    let status: UInt
    let text: String
  }

  private static let connectionLimit = 64

  private let http: HTTPClient
  private let base: String

  private init(base: String) {
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.connectionLimit
    // A server that was killed does not come back at its address.
    configuration.connectionPool.retryConnectionEstablishment = false
    http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    self.base = base
  }

  /// Calls the body with a client, and closes the client's connections in any case.
  static func with<Result>(
    _ base: String, _ body: (Client) async throws -> Result
  ) async throws -> Result {
    let client = Client(base: base)
    let result: Result
    do { result = try await body(client) } catch {
      try await client.http.shutdown()
      throw error
    }
    try await client.http.shutdown()
    return result
  }

  /// Sends a request, and returns the whole response.
  func send(_ method: String, _ path: String, _ text: String? = nil) async throws -> Answer {
    var request = HTTPClientRequest(url: base + path)
    request.method = .init(rawValue: method)
    request.body = text.map { .bytes(ByteBuffer(string: $0)) }
    let response = try await http.execute(request, timeout: .seconds(60))
    let body = try await response.body.collect(upTo: 1 << 20)
    return Answer(status: response.status.code, text: String(buffer: body))
  }

  /// Registers a user, and returns the status.
  func register(_ name: String) async throws -> UInt {
    try await send("POST", "/users/\(name)").status
  }

  /// Begins a session of a user, and returns its token.
  func logIn(_ name: String) async throws -> String {
    let answer = try await send("POST", "/users/\(name)/sessions")
    guard answer.status == 201 else { throw Unexpected(answer: answer) }
    return answer.text
  }

  struct Unexpected: Error {
    let answer: Answer
  }
}

/// Serves the routes of the session server on a free port.
func withServer<Result>(
  _ persist: MorainePersistDriver, lifetime: Duration = .seconds(1800),
  _ body: @Sendable (Client) async throws -> Result
) async throws -> Result {
  let router = Router()
  SessionRoutes(persist: persist, lifetime: lifetime).add(to: router)
  let application = Application(router: router, services: [persist])
  return try await application.test(.ahc()) { server in
    try await Client.with("http://localhost:\(server.port ?? 0)", body)
  }
}
