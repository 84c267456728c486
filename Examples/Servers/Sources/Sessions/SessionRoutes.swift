import Hummingbird

/// The routes of a server that registers users, and keeps their sessions and a note for each
/// session.
///
/// | request | answer |
/// |---|---|
/// | `POST /users/NAME` | 201, or 409 when the name is taken |
/// | `POST /users/NAME/sessions` | 201 with a token, or 404 when the user does not exist |
/// | `GET /sessions/TOKEN` | 200 with user and remaining seconds as JSON, or 404 |
/// | `PUT /sessions/TOKEN/note` | 204: stores the body, of at most 4 KiB |
/// | `GET /sessions/TOKEN/note` | 200 with the note, or 204 when there is none |
/// | `DELETE /sessions/TOKEN` | 204: ends the session |
///
/// A note belongs to a session. It ends with the session, or is unreachable from then on.
public struct SessionRoutes: Sendable {
  private static let longestNote = 4096

  private let persist: any PersistDriver
  private let lifetime: Duration

  /// - Parameters:
  ///   - persist: the driver that keeps users, sessions and notes.
  ///   - lifetime: the time after which a session ends.
  public init(persist: any PersistDriver, lifetime: Duration) {
    self.persist = persist
    self.lifetime = lifetime
  }

  /// Adds the routes to a router.
  public func add(to router: Router<BasicRequestContext>) {
    router.post("users/:name", use: register)
    router.post("users/:name/sessions", use: logIn)
    router.get("sessions/:token", use: session)
    router.put("sessions/:token/note", use: setNote)
    router.get("sessions/:token/note", use: note)
    router.delete("sessions/:token", use: logOut)
  }

  private func register(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> HTTPResponse.Status {
    let name = try context.parameters.require("name")
    do {
      try await persist.create(key: "user/\(name)", value: User(name: name))
    } catch let error as PersistError where error == .duplicate {
      throw HTTPError(.conflict)
    }
    return .created
  }

  private func logIn(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> EditedResponse<String> {
    let name = try context.parameters.require("name")
    guard let user = try await persist.get(key: "user/\(name)", as: User.self) else {
      throw HTTPError(.notFound)
    }
    let token = Self.token()
    // `create`, not `set`: a token that is in use is an error, and not another user's session.
    try await persist.create(
      key: "session/\(token)", value: Session(user: user.name), expires: lifetime)
    return EditedResponse(status: .created, response: token)
  }

  private func session(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> SessionReport {
    let (session, rest) = try await findSession(context)
    return SessionReport(user: session.user, remainingSeconds: Int(rest.components.seconds))
  }

  private func setNote(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> HTTPResponse.Status {
    let (_, rest) = try await findSession(context)
    let note = String(buffer: try await request.body.collect(upTo: Self.longestNote))
    try await persist.set(key: try noteKey(context), value: note, expires: rest)
    return .noContent
  }

  private func note(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> String? {
    _ = try await findSession(context)
    return try await persist.get(key: try noteKey(context), as: String.self)
  }

  private func logOut(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> HTTPResponse.Status {
    // The session first: without it, no request reaches the note.
    try await persist.remove(key: "session/\(try context.parameters.require("token"))")
    try await persist.remove(key: try noteKey(context))
    return .noContent
  }

  /// Returns the session of a request, and the time until the session ends.
  private func findSession(
    _ context: BasicRequestContext
  ) async throws -> (session: Session, rest: Duration) {
    let key = "session/\(try context.parameters.require("token"))"
    guard let (session, rest) = try await persist.getWithTTL(key: key, as: Session.self) else {
      throw HTTPError(.notFound)
    }
    return (session, rest ?? lifetime)
  }

  private func noteKey(_ context: BasicRequestContext) throws -> String {
    "note/\(try context.parameters.require("token"))"
  }

  /// Returns 128 random bits as text.
  private static func token() -> String {
    var generator = SystemRandomNumberGenerator()
    let bits = UInt128(generator.next()) << 64 | UInt128(generator.next())
    let digits = String(bits, radix: 16)
    return String(repeating: "0", count: 32 - digits.count) + digits
  }
}

private struct User: Codable, Sendable {
  let name: String
}

private struct Session: Codable, Sendable {
  let user: String
}

/// A session, as a client sees it.
private struct SessionReport: ResponseEncodable {
  let user: String
  let remainingSeconds: Int
}
