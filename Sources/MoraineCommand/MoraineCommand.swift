import ArgumentParser
import Foundation
import Moraine

/// The command line tool. Exit codes: 0 done, 1 not found, 2 usage, 3 corrupt, 4 locked, 5 I/O,
/// 6 no space, 7 newer format.
@main
struct MoraineCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "moraine",
    abstract: "Reads, writes and checks Moraine stores.",
    subcommands: [
      Put.self, Get.self, Delete.self, Scan.self, Load.self, Dump.self, Stats.self, Verify.self,
      Drive.self,
    ])

  static func main() async {
    signal(SIGPIPE, SIG_IGN)
    do {
      var command = try parseAsRoot()
      if var asynchronous = command as? any AsyncParsableCommand {
        try await asynchronous.run()
      } else {
        try command.run()
      }
    } catch let failure as Failure {
      if let message = failure.message { Output.error(message) }
      Foundation.exit(failure.code)
    } catch let error as StoreError {
      Output.error(error.description)
      Foundation.exit(error.exitCode)
    } catch {
      let code = exitCode(for: error)
      let text = fullMessage(for: error)
      if code == .success { Output.line(text) } else { Output.text(text, to: .standardError) }
      Foundation.exit(code == .success ? 0 : 2)
    }
  }
}

/// An end with a code of its own.
struct Failure: Error {
  let code: Int32
  let message: String?

  static let notFound = Failure(code: 1, message: nil)
}

extension StoreError {
  var exitCode: Int32 {
    switch code {
    case .keyTooLarge, .valueTooLarge: 2
    case .corrupted: 3
    case .locked: 4
    case .noSpace: 6
    case .newerFormat: 7
    default: 5
    }
  }
}
