import Hummingbird

/// The sessions of users who are logged in. A session is an entry that expires, and a cookie with
/// the entry's key. There are no passwords: a person who knows a user's name can read and change
/// the user's notes.
public struct LoginSessions: Sendable {
  private static let cookieName = "session"

  private let persist: any PersistDriver
  private let lifetime: Duration

  /// - Parameters:
  ///   - persist: the driver that keeps the sessions.
  ///   - lifetime: the time after which a session ends.
  public init(persist: any PersistDriver, lifetime: Duration) {
    self.persist = persist
    self.lifetime = lifetime
  }

  /// Begins a session of a user, and returns its cookie.
  func begin(for user: String) async throws -> Cookie {
    var generator = SystemRandomNumberGenerator()
    let bits = UInt128(generator.next()) << 64 | UInt128(generator.next())
    let token = String(bits, radix: 16)
    // `create`, not `set`: a token that is in use is an error, and not another user's session.
    try await persist.create(key: token, value: LoginSession(user: user), expires: lifetime)
    return Self.cookie(token, maxAge: Int(lifetime.components.seconds))
  }

  /// Returns the user of a request, and the time until the session ends.
  ///
  /// - Throws: 401 when the request has no session, or one that has ended.
  func find(_ request: Request) async throws -> (user: String, rest: Duration) {
    guard let token = request.cookies[Self.cookieName]?.value,
      let (session, rest) = try await persist.getWithTTL(key: token, as: LoginSession.self)
    else { throw HTTPError(.unauthorized) }
    return (session.user, rest ?? lifetime)
  }

  /// Returns whether the session of a request has not ended.
  func isCurrent(_ request: Request) async throws -> Bool {
    do {
      _ = try await find(request)
      return true
    } catch let error as HTTPError where error.status == .unauthorized {
      return false
    }
  }

  /// Ends the session of a request, and returns a cookie that replaces the session's.
  func end(_ request: Request) async throws -> Cookie {
    if let token = request.cookies[Self.cookieName]?.value { try await persist.remove(key: token) }
    return Self.cookie("", maxAge: 0)
  }

  /// Returns a cookie that scripts of the page cannot read, and that requests of other sites lack.
  private static func cookie(_ token: String, maxAge: Int) -> Cookie {
    Cookie(
      name: cookieName, value: token, maxAge: maxAge, path: "/", httpOnly: true, sameSite: .strict)
  }
}

private struct LoginSession: Codable, Sendable {
  let user: String
}
