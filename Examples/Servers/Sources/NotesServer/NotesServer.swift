import ArgumentParser
import Foundation
import Hummingbird
import Moraine
import MoraineHummingbird
import Notes
import ServiceLifecycle

/// `NotesServer serve DIRECTORY [--archive ARCHIVE]` serves notes on 127.0.0.1, and
/// `NotesServer restore ARCHIVE DIRECTORY` makes the directory again when it is lost.
///
/// The server ends in order on SIGTERM and SIGINT, and with an error when the store stops writing or
/// the archive cannot be continued. After a SIGKILL it continues with everything that it has
/// answered. `Scripts/notes` shows all this.
@main
struct NotesServer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Keeps notes in a Moraine store, and an archive of them.",
    subcommands: [Serve.self, Restore.self])
}

struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serves the notes of a store.",
    discussion: """
      An answer to a change means that the disk has it and, with --archive, that the
      archive has it too.
      """)

  @Argument(help: "The store's directory. It is created when it is missing.")
  var directory: String
  @Option(help: "The directory that receives everything that the store writes.")
  var archive: String?
  @Flag(help: "Create the archive when it is missing.")
  var createArchive = false
  @Option(help: "The port; 0 lets the system choose one.")
  var port = 8080
  @Option(help: "The lifetime of a session.")
  var sessionSeconds: UInt32 = 1800

  func run() async throws {
    let store = try await Store.open(at: directory)
    // Services end in the reverse order, and the server ends before them.
    var services: [any Service] = [StoreService(store)]
    if let archive {
      services.append(try await ArchiveService(of: store, at: archive, isNew: createArchive))
    }
    let durability = archive == nil ? Durability.sync : .replicated
    let persist = MorainePersistDriver(
      in: try store.keyspace(named: "sessions"), durability: durability)
    services.append(persist)

    let router = Router()
    NotesRoutes(
      book: try NoteBook(in: store, durability: durability),
      sessions: LoginSessions(persist: persist, lifetime: .seconds(Int64(sessionSeconds)))
    ).add(to: router)
    let application = Application(
      router: router,
      configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
      services: services,
      onServerRunning: { channel in
        say("listening on http://127.0.0.1:\(channel.localAddress?.port ?? port)")
      })
    try await application.runService()
  }
}

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes a store from an archive.",
    discussion: "The store appears as a whole, after each byte of it was checked, or not at all.")

  @Argument(help: "The directory of the archive.")
  var archive: String
  @Argument(help: "The store's directory: missing or empty.")
  var directory: String

  func run() async throws {
    let count = try await ArchiveService.restore(archive, to: directory)
    say("restored \(count) records: notes, sessions, and entries of the indexes")
  }
}

/// Writes a line immediately. `print` would buffer it where the output is a pipe.
private func say(_ line: String) {
  FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}
