import ArgumentParser
import Foundation
import Moraine
import MoraineArchive

/// The command line tool.
@main
struct MoraineCommand: AsyncParsableCommand {
  /// The version that `--version` prints.
  static let version = "0.2.0"

  static let configuration = CommandConfiguration(
    commandName: "moraine",
    abstract: "Reads, writes and checks Moraine stores.",
    discussion: """
      A store is a directory. The first write creates it. For example:

        moraine put settings.moraine theme dark
        moraine get settings.moraine theme

      EXIT CODES:
        0  success, also when the reader of the output ended first (| head)
        1  the key was not found
        2  usage: bad arguments or input, no store at the path, writing to a backup
        3  corrupt: bytes on disk differ from the bytes that were written
        4  locked: another process has the store open
        5  the operating system refused to read or write
        6  no space left
        7  a newer version of Moraine wrote the store
        8  another writer has taken over the archive
        9  the store is an older copy, or a branch, of what the archive has
        10 the archive cannot be reached, or cannot be held there
      """,
    version: version,
    subcommands: [
      Put.self, Get.self, Delete.self, Scan.self, Load.self, Dump.self, Stats.self,
      Keyspaces.self, Indexes.self, Query.self, Verify.self, Compact.self, Backup.self,
      Restore.self, ArchiveStore.self, ArchiveInformation.self, ArchiveVerification.self,
      ArchiveCleaning.self, Follow.self, Promote.self, Rejoin.self, Watch.self, Doctor.self,
      Inspect.self, Bench.self, CrashTest.self, Drive.self,
    ])

  static func main() async {
    // A write to a closed pipe then fails with EPIPE; the signal would end the process.
    signal(SIGPIPE, SIG_IGN)
    do {
      try checkArguments()
      var command = try parseAsRoot()
      if var asynchronous = command as? any AsyncParsableCommand {
        try await asynchronous.run()
      } else {
        try command.run()
      }
      try Output.flush()
    } catch {
      Foundation.exit(end(error))
    }
  }

  /// Rejects arguments that are not UTF-8. Swift would replace the invalid bytes with U+FFFD, and
  /// the command would silently use another key.
  private static func checkArguments() throws(Failure) {
    for index in 1..<max(1, Int(CommandLine.argc)) {
      guard let argument = CommandLine.unsafeArgv[index] else { return }
      if String(validatingCString: argument) == nil {
        throw .usage("argument \(index) is not UTF-8; drive takes any bytes, as hexadecimal digits")
      }
    }
  }

  /// Prints the error that ended the command.
  ///
  /// - Returns: the exit code.
  private static func end(_ error: any Error) -> Int32 {
    var code: Int32
    var message: String?
    switch error {
    case let failure as Failure: (code, message) = (failure.code, failure.message)
    case let error as StoreError: (code, message) = (error.exitCode, error.description)
    case let error as ArchiveError: (code, message) = (error.exitCode, error.description)
    case let error as ObjectStoreError:
      (code, message) = (ArchiveError(error).exitCode, error.description)
    default:
      // Help and version arrive here as errors too.
      let text = fullMessage(for: error)
      guard exitCode(for: error) == .success else {
        Output.note(text)
        return 2
      }
      (code, message) = (0, nil)
      do { try Output.line(text) } catch { (code, message) = (error.code, error.message) }
    }
    // Results that were found before the failure are printed before the error.
    do { try Output.flush() } catch {
      if code == 0 { (code, message) = (error.code, error.message) }
    }
    if let message { Output.error(message) }
    return code
  }
}
