import Hummingbird
import Moraine

/// Answers errors of the store with a status that says whether the client should try again.
struct StoreErrors: RouterMiddleware {
  func handle(
    _ request: Request, context: BasicRequestContext,
    next: (Request, BasicRequestContext) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch let error as StoreError {
      guard let answer = Self.answer(error.code) else { throw error }
      context.logger.error("\(error)")
      throw answer
    }
  }

  private static func answer(_ code: StoreError.Code) -> HTTPError? {
    switch code {
    case .archiveUnavailable:
      HTTPError(
        .serviceUnavailable,
        message: "the archive cannot be reached; it will receive the change later")
    case .noSpace:
      HTTPError(HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"))
    // The server ends with the store, and its successor answers.
    case .closed, .poisoned, .storeReplaced, .fenced: HTTPError(.serviceUnavailable)
    default: nil
    }
  }
}
