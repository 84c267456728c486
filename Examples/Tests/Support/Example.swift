import Foundation
import Subprocess
import SystemPackage

/// A built example, started as a user starts it.
public enum Example {
  /// Returns the path of an example, which is next to the test bundle.
  private static func path(_ name: String) -> FilePath {
    // An example that ends early must fail its test, and not end the test process.
    signal(SIGPIPE, SIG_IGN)
    let bundles = Bundle.allBundles.map(\.bundlePath).filter { $0.hasSuffix(".xctest") }
    let places = (bundles + [Bundle.main.bundlePath + "/x"] + CommandLine.arguments)
      // Not with `NSString`: it traps for an argument of one character.
      .map { FilePath($0).removingLastComponent().appending(name) }
    guard
      let path = places.first(where: { FileManager.default.isExecutableFile(atPath: $0.string) })
    else { fatalError("there is no \(name) in \(places)") }
    return path
  }

  private static let environment = Environment.inherit.updating(["SWIFT_BACKTRACE": "enable=no"])

  /// Runs an example to its end.
  ///
  /// - Returns: its exit code, which is -1 for a signal, and the lines of its output.
  public static func run(
    _ name: String, _ arguments: String..., input: String = ""
  ) async throws -> (code: Int32, lines: [String], errors: String) {
    let result = try await Subprocess.run(
      .path(path(name)), arguments: Arguments(arguments), environment: environment,
      input: .string(input), output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
    let lines = result.standardOutput.split(separator: "\n").map(String.init)
    return (code(result.terminationStatus), lines, result.standardError)
  }

  /// Starts an example, and calls the body with a conversation. The example's input ends when the
  /// body returns.
  ///
  /// - Returns: its exit code, which is -1 for a signal.
  public static func talk(
    _ name: String, _ arguments: String..., body: (Conversation) async throws -> Void
  ) async throws -> Int32 {
    let result = try await Subprocess.run(
      .path(path(name)), arguments: Arguments(arguments), environment: environment,
      input: .inputWriter, output: .sequence, error: .discarded
    ) { execution in
      let conversation = Conversation(
        writer: execution.standardInputWriter,
        lines: execution.standardOutput.strings().makeAsyncIterator(),
        kill: { try execution.send(signal: .kill) })
      try await body(conversation)
      try await conversation.end()
    }
    return code(result.terminationStatus)
  }

  private static func code(_ status: TerminationStatus) -> Int32 {
    if case .exited(let code) = status { code } else { -1 }
  }
}

/// A conversation with a running example.
public final class Conversation {
  private let writer: StandardInputWriter
  private var lines: SubprocessOutputSequence.StringSequence<UTF8>.AsyncIterator
  private let sendKill: () throws -> Void

  init(
    writer: StandardInputWriter,
    lines: SubprocessOutputSequence.StringSequence<UTF8>.AsyncIterator,
    kill: @escaping () throws -> Void
  ) {
    self.writer = writer
    self.lines = lines
    sendKill = kill
  }

  public func say(_ line: String) async throws { _ = try await writer.write(line + "\n") }

  /// Waits for the next line and returns it. Returns nil when the example has ended.
  public func nextLine() async throws -> String? {
    try await lines.next(isolation: #isolation)?.trimmingCharacters(in: .newlines)
  }

  /// Ends the example with SIGKILL, and waits until the process has ended.
  public func kill() async throws {
    try sendKill()
    try await readToTheEnd()
  }

  /// Ends the example's input, and reads what it still prints: printing into a pipe without a
  /// reader would end it with SIGPIPE.
  func end() async throws {
    try await writer.finish()
    try await readToTheEnd()
  }

  private func readToTheEnd() async throws { while try await nextLine() != nil {} }
}

/// A folder for one test. It is removed at the end.
public final class TemporaryFolder {
  public let url: URL

  public init() throws {
    url = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-example-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit {
    do { try FileManager.default.removeItem(at: url) } catch { print("not removed: \(error)") }
  }
}
