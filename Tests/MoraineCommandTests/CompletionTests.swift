import Foundation
import Testing

/// The completions that the command gives to shells.
@Suite(.timeLimit(.minutes(5))) struct CompletionTests {
  private static let subcommands = [
    "put", "get", "delete", "scan", "load", "dump", "stats", "verify", "compact", "watch", "backup",
    "restore", "doctor", "inspect", "bench", "crash-test", "drive",
  ]

  @Test(arguments: ["bash", "zsh", "fish"])
  func everySubcommandIsCompleted(shell: String) async throws {
    let script = try await Moraine.run("--generate-completion-script", shell)
    #expect(script.code == 0 && script.errors.isEmpty)
    for name in Self.subcommands { #expect(script.text.contains(name), "\(shell): \(name)") }
  }

  /// Every command explains itself, and the help of all of them names each.
  @Test func everySubcommandHasHelp() async throws {
    let all = try await Moraine.run("--help")
    for name in Self.subcommands {
      #expect(all.text.contains("\n  \(name) "), "\(name)")
      let help = try await Moraine.run(name, "--help")
      #expect(help.code == 0 && help.text.contains("USAGE: moraine \(name)"), "\(help)")
    }
  }
}
