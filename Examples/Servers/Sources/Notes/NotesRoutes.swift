import Foundation
import Hummingbird
import Moraine

/// The routes of a server that keeps notes of users.
///
/// | request | answer |
/// |---|---|
/// | `GET /` | the page |
/// | `POST /session` with `{"name": …}` | 201 and a cookie; 400 for a name with other than letters, digits and `-` |
/// | `GET /session` | 200 with user and remaining seconds as JSON |
/// | `DELETE /session` | 204: ends the session |
/// | `GET /notes?search=TEXT` | 200 with the notes as JSON, the newest first |
/// | `GET /notes/events?search=TEXT` | 200 with these notes as server-sent events |
/// | `POST /notes` with `{"text": …}` | 201 with the note; 413 for more than 4,000 UTF-16 units |
/// | `PUT /notes/ID` with `{"text": …}` | 200 with the note, or 404 |
/// | `DELETE /notes/ID` | 204, or 404 |
///
/// `GET /session` and the requests about notes answer 401 without a session. Requests that need
/// the store answer 503 while it ends; changes also while the archive cannot be reached, and 507
/// while the disk is full.
public struct NotesRoutes: Sendable {
  private static let longestName = 32
  private static let longestText = 4000

  private let book: NoteBook
  private let sessions: LoginSessions
  private let heartbeat: Duration

  /// - Parameters:
  ///   - book: the notes.
  ///   - sessions: the sessions of the users.
  ///   - heartbeat: the time between two looks at the session of a client that receives events.
  public init(book: NoteBook, sessions: LoginSessions, heartbeat: Duration = .seconds(5)) {
    self.book = book
    self.sessions = sessions
    self.heartbeat = heartbeat
  }

  /// Adds the routes to a router.
  public func add(to router: Router<BasicRequestContext>) {
    router.add(middleware: StoreErrors())
    router.get("", use: page)
    router.post("session", use: logIn)
    router.get("session", use: session)
    router.delete("session", use: logOut)
    router.get("notes", use: list)
    router.get("notes/events", use: events)
    router.post("notes", use: add)
    router.put("notes/:id", use: edit)
    router.delete("notes/:id", use: delete)
  }

  private func page(_ request: Request, _ context: BasicRequestContext) -> Response {
    // The page has its own style and script, and asks this server alone.
    let policy =
      "default-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return Response(
      status: .ok,
      headers: [.contentType: "text/html; charset=utf-8", .contentSecurityPolicy: policy],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: PackageResources.page_html)))
  }

  private func logIn(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
    let name = try await request.decode(as: Login.self, context: context).name
    guard (1...Self.longestName).contains(name.count),
      name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "-" })
    else { throw HTTPError(.badRequest, message: "a name has up to 32 letters and digits") }
    var response = Response(status: .created)
    response.setCookie(try await sessions.begin(for: name))
    return response
  }

  private func session(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> SessionReport {
    let (user, rest) = try await sessions.find(request)
    return SessionReport(user: user, remainingSeconds: Int(rest.components.seconds))
  }

  private func logOut(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
    var response = Response(status: .noContent)
    response.setCookie(try await sessions.end(request))
    return response
  }

  private func list(_ request: Request, _ context: BasicRequestContext) async throws -> [Note] {
    try await query(request).fetch()
  }

  private func events(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
    let query = try await query(request)
    return NoteEvents(
      query: query, heartbeat: heartbeat,
      onFailure: { [logger = context.logger] error in logger.error("\(error)") },
      isSessionCurrent: { [sessions] in try await sessions.isCurrent(request) }
    ).response
  }

  private func add(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> EditedResponse<Note> {
    let (user, _) = try await sessions.find(request)
    let note = try await book.add(try await text(request, context), of: user)
    return EditedResponse(status: .created, response: note)
  }

  private func edit(_ request: Request, _ context: BasicRequestContext) async throws -> Note {
    let (user, _) = try await sessions.find(request)
    let id = try context.parameters.require("id", as: UUID.self)
    guard let note = try await book.edit(id, try await text(request, context), of: user) else {
      throw HTTPError(.notFound)
    }
    return note
  }

  private func delete(
    _ request: Request, _ context: BasicRequestContext
  ) async throws -> HTTPResponse.Status {
    let (user, _) = try await sessions.find(request)
    let id = try context.parameters.require("id", as: UUID.self)
    return try await book.delete(id, of: user) ? .noContent : .notFound
  }

  /// Returns a query of the notes that a request asks for.
  private func query(_ request: Request) async throws -> ModelQuery<Note> {
    let (user, _) = try await sessions.find(request)
    return book.notes(of: user, matching: request.uri.queryParameters.get("search") ?? "")
  }

  /// Returns the text of a note that a request carries.
  private func text(_ request: Request, _ context: BasicRequestContext) async throws -> String {
    let text = try await request.decode(as: Draft.self, context: context).text
    guard text.utf16.count <= Self.longestText else { throw HTTPError(.contentTooLarge) }
    guard !text.isEmpty else { throw HTTPError(.badRequest, message: "the note has no text") }
    return text
  }
}

private struct Login: Decodable {
  let name: String
}

private struct Draft: Decodable {
  let text: String
}

/// A session, as a client sees it.
private struct SessionReport: ResponseEncodable {
  let user: String
  let remainingSeconds: Int
}
