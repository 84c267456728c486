import Hummingbird
import HummingbirdTesting
import Moraine
import MoraineHummingbird
import MoraineTesting
import Notes

/// A store in memory with notes and sessions, whose clock a test moves.
struct TestedNotes: Sendable {
  let clock = ManualClock(startingAt: 1_700_000_000_000)
  let store: Store
  let book: NoteBook

  init() throws {
    var configuration = Store.Configuration()
    configuration.clock = clock
    store = Store.inMemory(configuration: configuration)
    book = try NoteBook(in: store)
  }

  /// Serves the routes on a free port, and calls the body with the address. A session ends after 60
  /// seconds of the manual clock.
  func serve(_ body: @escaping @Sendable (String) async throws -> Void) async throws {
    let persist = MorainePersistDriver(in: try store.keyspace(named: "sessions"), clock: clock)
    let sessions = LoginSessions(persist: persist, lifetime: .seconds(60))
    let router = Router()
    NotesRoutes(book: book, sessions: sessions, heartbeat: .milliseconds(10)).add(to: router)
    let application = Application(router: router, services: [persist])
    try await application.test(.ahc()) { server in
      try await body("http://localhost:\(server.port ?? 0)")
    }
  }
}
