import AsyncHTTPClient
import Foundation
import Hummingbird
import Notes

/// A browser with the page open: an HTTP client with the cookie of a session.
struct Browser: Sendable {
  /// Status and text of a response.
  struct Answer {
    let status: UInt
    let text: String

    func notes() throws -> [Note] { try decoded([Note].self) }
    func note() throws -> Note { try decoded(Note.self) }

    private func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
      try JSONDecoder().decode(type, from: Data(text.utf8))
    }
  }

  struct Refused: Error {
    let status: UInt
  }

  private static let http: HTTPClient = {
    var configuration = HTTPClient.Configuration()
    // A server that was killed does not come back at its address.
    configuration.connectionPool.retryConnectionEstablishment = false
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }()

  let base: String
  private(set) var cookie: String?

  init(_ base: String, cookie: String? = nil) {
    self.base = base
    self.cookie = cookie
  }

  /// Returns a browser in which a user has logged in.
  static func logIn(_ base: String, as name: String) async throws -> Browser {
    let response = try await Browser(base).execute("POST", "/session", ["name": name])
    guard response.status == .created else { throw Refused(status: response.status.code) }
    // The name and the value, without the attributes.
    let cookie = response.headers.first(name: "set-cookie")?.prefix { $0 != ";" }
    return Browser(base, cookie: cookie.map(String.init))
  }

  /// Sends a request, and returns the whole response.
  func send(
    _ method: String, _ path: String, _ body: [String: String]? = nil
  ) async throws -> Answer {
    let response = try await execute(method, path, body)
    let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
    return Answer(status: response.status.code, text: text)
  }

  /// Adds a note, and returns it.
  func add(_ text: String) async throws -> Note {
    let answer = try await send("POST", "/notes", ["text": text])
    guard answer.status == 201 else { throw Refused(status: answer.status) }
    return try answer.note()
  }

  /// Returns the texts of the notes, in the order of the server.
  func texts(matching search: String = "") async throws -> [String] {
    try await send("GET", "/notes?search=\(search)").notes().map(\.text)
  }

  /// Begins to receive the notes that match a search.
  func events(matching search: String = "") async throws -> NoteEventReader {
    let response = try await execute("GET", "/notes/events?search=\(search)", nil)
    guard response.status == .ok else { throw Refused(status: response.status.code) }
    return NoteEventReader(response.body)
  }

  private func execute(
    _ method: String, _ path: String, _ body: [String: String]?
  ) async throws -> HTTPClientResponse {
    var request = HTTPClientRequest(url: base + path)
    request.method = .init(rawValue: method)
    if let cookie { request.headers.add(name: "cookie", value: cookie) }
    if let body {
      request.headers.add(name: "content-type", value: "application/json")
      request.body = .bytes(ByteBuffer(data: try JSONEncoder().encode(body)))
    }
    return try await Self.http.execute(request, timeout: .seconds(60))
  }
}

/// Reads the events of one client.
struct NoteEventReader {
  enum Event: Equatable {
    /// The notes have these texts.
    case texts([String])
    /// The session has ended.
    case end
  }

  private var body: HTTPClientResponse.Body.AsyncIterator
  private var text: [UInt8] = []

  init(_ body: HTTPClientResponse.Body) { self.body = body.makeAsyncIterator() }

  /// Returns the next event, without comments; nil when the server has ended the events.
  mutating func next() async throws -> Event? {
    while true {
      if let end = text.firstRange(of: Array("\n\n".utf8)) {
        let event = String(decoding: text[..<end.lowerBound], as: UTF8.self)
        text.removeSubrange(..<end.upperBound)
        if event.hasPrefix("event: end") { return .end }
        guard event.hasPrefix("data: ") else { continue }
        let notes = try JSONDecoder().decode([Note].self, from: Data(event.dropFirst(6).utf8))
        return .texts(notes.map(\.text))
      }
      guard let more = try await body.next() else { return nil }
      text += Array(buffer: more)
    }
  }

  /// Reads until the notes have these texts. Changes in a short time may be one event, or several.
  ///
  /// - Returns: whether they had them before the end of the events.
  mutating func wait(for texts: [String]) async throws -> Bool {
    while let event = try await next() {
      if event == .texts(texts) { return true }
    }
    return false
  }
}
