import Foundation
import Moraine

/// `AddressBook NAME DIR`: a list that an index filters and sorts. Start it twice with the same DIR:
/// each terminal shows what the other changes.
@main
struct AddressBook {
  @MainActor
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    guard arguments.count == 2 else {
      complain("usage: AddressBook NAME DIR")
      exit(2)
    }
    do {
      try await run(URL(fileURLWithPath: arguments[1], isDirectory: true), as: arguments[0])
    } catch {
      complain("\(arguments[0]): \(error)")
      exit(1)
    }
  }

  @MainActor
  private static func run(_ folder: URL, as name: String) async throws {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    var configuration = Store.Configuration()
    // Several processes may have the address book open.
    configuration.sharing = .shared
    let store = try Store(at: folder.appendingPathComponent("book"), configuration: configuration)
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: Person.indexes)
    let session = Session(people, print: say)
    say("\(name) has \(try await people.count()) people")
    await session.prepare()
    let following = Task { await session.follow() }
    for await line in lines() { await session.perform(line) }
    following.cancel()
    try await store.close()
  }

  /// Returns the lines of standard input. A separate thread reads them, because reading blocks.
  private static func lines() -> AsyncStream<String> {
    AsyncStream { continuation in
      Thread.detachNewThread {
        while let line = readLine() { continuation.yield(line) }
        continuation.finish()
      }
    }
  }

  /// Writes a line immediately. `print` would buffer it where the output is a pipe.
  private static func say(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
  }

  private static func complain(_ line: String) {
    FileHandle.standardError.write(Data("\(line)\n".utf8))
  }
}
