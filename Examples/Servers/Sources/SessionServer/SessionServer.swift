import Foundation
import Hummingbird
import Moraine
import MoraineHummingbird
import Sessions

/// `SessionServer DIRECTORY [PORT [SECONDS]]`: serves users, sessions and notes on 127.0.0.1, and
/// keeps them in the store in the directory. PORT is 8080 unless given; 0 lets the system choose
/// one. SECONDS is the lifetime of a session, 1800 unless given.
///
/// All writes are durable when a client receives its answer. The server ends in order on SIGTERM
/// and SIGINT, and with an error when the store stops writing. After a SIGKILL or a power failure
/// it continues with everything that it has answered. `README.md` has commands to try it.
@main
struct SessionServer {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    guard let directory = arguments.first, arguments.count <= 3,
      let port = arguments.count > 1 ? UInt16(arguments[1]) : 8080,
      let seconds = arguments.count > 2 ? UInt32(arguments[2]) : 1800
    else {
      complain("usage: SessionServer DIRECTORY [PORT [SECONDS]]")
      exit(2)
    }
    do { try await serve(directory, port: Int(port), lifetime: .seconds(Int64(seconds))) } catch {
      complain("SessionServer: \(error)")
      exit(1)
    }
  }

  private static func serve(_ directory: String, port: Int, lifetime: Duration) async throws {
    let store = try await Store.open(at: directory)
    let persist = MorainePersistDriver(
      in: try store.keyspace(named: "sessions"), durability: .sync)
    let router = Router()
    SessionRoutes(persist: persist, lifetime: lifetime).add(to: router)
    let application = Application(
      router: router,
      configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
      // Services end in the reverse order, and the server ends before them.
      services: [StoreService(store), persist],
      onServerRunning: { channel in
        say("listening on http://127.0.0.1:\(channel.localAddress?.port ?? port)")
      })
    try await application.runService()
  }

  /// Writes a line immediately. `print` would buffer it where the output is a pipe.
  private static func say(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
  }

  private static func complain(_ line: String) {
    FileHandle.standardError.write(Data("\(line)\n".utf8))
  }
}
