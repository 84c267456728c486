import AsyncAlgorithms
import Foundation
import Hummingbird
import Moraine
import ServiceLifecycle

/// The states of a query as server-sent events: the notes at first, and again after each change, by
/// any client. The event `end` says that the session has ended.
struct NoteEvents: Sendable {
  /// The time that a client has to receive its last event when the server shuts down.
  private static let grace = Duration.seconds(2)

  /// The notes that the events show.
  let query: ModelQuery<Note>
  /// The time between two looks at the session, while no note changes. Each look sends a comment,
  /// which fails when the client is gone.
  let heartbeat: Duration
  /// Receives the error of a note that cannot be read, and that the events therefore lack.
  let onFailure: @Sendable (StoreError) -> Void
  /// Whether the session of the client has not ended.
  let isSessionCurrent: @Sendable () async throws -> Bool

  /// The response. It lasts until the session ends, the client is gone, or the server shuts down.
  var response: Response {
    let headers: HTTPFields = [.contentType: "text/event-stream", .cacheControl: "no-store"]
    return Response(status: .ok, headers: headers, body: ResponseBody { try await write(to: &$0) })
  }

  private func write(to writer: inout any ResponseBodyWriter) async throws {
    let body = MovedWriter(writer: writer)
    let isWhole = try await withThrowingTaskGroup(of: Bool.self) { group in
      group.addTask {
        var writer = body.writer
        try await writeEvents(to: &writer)
        return true
      }
      // A write waits for the client. One that reads nothing would prevent the end of the server.
      group.addTask {
        try await gracefulShutdown()
        try await Task.sleep(for: Self.grace)
        return false
      }
      defer { group.cancelAll() }
      return try await group.next() ?? true
    }
    // The error closes the connection.
    if !isWhole { throw CancellationError() }
  }

  private func writeEvents(to writer: inout any ResponseBodyWriter) async throws {
    let updates = query.updates.map { update in
      if let failure = update.failure { onFailure(failure) }
      return Optional(Array(update.models))
    }
    let beats = AsyncTimerSequence.repeating(every: heartbeat).map { _ in [Note]?.none }
    // A browser connects again one second after it has lost the connection.
    try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
    // Without the last call, an open page would delay the end of the server.
    for try await notes in merge(updates, beats).cancelOnGracefulShutdown() {
      guard try await isSessionCurrent() else {
        try await writer.write(ByteBuffer(string: "event: end\ndata:\n\n"))
        break
      }
      try await writer.write(try Self.event(notes))
    }
    try await writer.finish(nil)
  }

  /// Returns an event with notes, or a comment. JSON has no line breaks, so an event is one line.
  private static func event(_ notes: [Note]?) throws -> ByteBuffer {
    guard let notes else { return ByteBuffer(string: ":\n\n") }
    let json = String(decoding: try JSONEncoder().encode(notes), as: UTF8.self)
    return ByteBuffer(string: "data: \(json)\n\n")
  }
}

/// The writer of a response on its way into another task.
///
/// Safety: only the task that receives it uses the writer.
private struct MovedWriter: @unchecked Sendable {
  let writer: any ResponseBodyWriter
}
