import Moraine
import ServerTesting
import Subprocess
import Synchronization
import Testing

/// The built program, and processes that are killed.
@Suite(.timeLimit(.minutes(2))) struct ServerProcessTests {
  private let folder: TemporaryFolder
  private var path: String { folder.url.appendingPathComponent("store").path }

  private let server = ServerProcess("SessionServer")

  init() throws { folder = try TemporaryFolder() }

  /// Serves on a free port, and calls the body with a client.
  private func serve(
    endingWith signal: Signal,
    _ body: @Sendable (Client, @escaping @Sendable () throws -> Void) async throws -> Void
  ) async throws -> Int32 {
    try await server.serve([path, "0"], endingWith: signal) { address, end async throws in
      try await Client.with(address) { client in try await body(client, end) }
    }
  }

  @Test func theServerClosesItsStoreOnSIGTERM() async throws {
    let code = try await serve(endingWith: .terminate) {
      client, _ async throws in
      #expect(try await client.register("ada") == 201)
    }
    #expect(code == 0)
    try await withStore(at: path) { store in
      #expect(await store.recoveryReport.wasClean)
    }
  }

  /// The users whose registration was answered.
  private final class Registered: Sendable {
    private let storage = Mutex<Set<String>>([])

    var names: Set<String> { storage.withLock { $0 } }

    /// Adds a name, and returns the number of names.
    func add(_ name: String) -> Int {
      storage.withLock { names in
        names.insert(name)
        return names.count
      }
    }
  }

  /// Clients register users until the server is killed. The next server has every user whose
  /// registration was answered.
  @Test func aKilledServerHasLostNothingThatItAnswered() async throws {
    let registered = Registered()
    for run in 0..<3 {
      let code = try await serve(endingWith: .kill) {
        client, kill async throws in
        for name in registered.names {
          #expect(try await client.register(name) == 409, "\(name) is lost")
        }
        let goal = registered.names.count + 100
        await withTaskGroup { group in
          for number in 0..<16 {
            group.addTask {
              // The kill ends the loop with an error of the connection.
              do {
                for round in 0... {
                  let name = "user-\(run)-\(number)-\(round)"
                  guard try await client.register(name) == 201 else { break }
                  if registered.add(name) == goal { try kill() }
                }
              } catch {}
            }
          }
        }
      }
      #expect(code == -1)
    }
    let names = registered.names
    #expect(names.count >= 300)
    let code = try await serve(endingWith: .terminate) {
      client, _ async throws in
      for name in names { #expect(try await client.register(name) == 409, "\(name) is lost") }
    }
    #expect(code == 0)
  }

  @Test func misuseIsAnswered() async throws {
    for arguments in [["a", "port"], ["a", "0", "-1"], ["a", "0", "1", "2"]] {
      let outcome = try await server.run(arguments)
      #expect(outcome.code == 2 && outcome.errors.hasPrefix("usage: "), "\(arguments)")
    }
    // A second server may not use the store of the first one.
    let code = try await serve(endingWith: .terminate) {
      client, _ async throws in
      #expect(try await client.register("ada") == 201)
      let second = try await server.run([path, "0"])
      #expect(second.code == 1 && second.errors.contains("locked"), "\(second)")
      #expect(try await client.register("ada") == 409)
    }
    #expect(code == 0)
  }
}
