import Foundation
import Moraine

/// `SharedSettings NAME DIR`: start it twice with the same DIR. Each terminal shows the changes of
/// the other.
@main
struct SharedSettings {
  @MainActor
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    guard arguments.count == 2 else {
      complain("usage: SharedSettings NAME DIR")
      exit(2)
    }
    do {
      try await edit(URL(fileURLWithPath: arguments[1], isDirectory: true), as: arguments[0])
    } catch {
      complain("\(arguments[0]): \(error)")
      exit(1)
    }
  }

  @MainActor
  private static func edit(_ folder: URL, as name: String) async throws {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    // Settings are shared with other processes by default.
    let store = try PersistedStore(directory: folder)
    let editor = SettingsEditor(store, print: say)
    say("\(name) edits \(folder.path)")
    editor.show()
    let following = Task { await editor.follow() }
    for await line in lines() { await editor.perform(line) }
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
