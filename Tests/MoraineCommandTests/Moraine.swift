import Foundation
import Subprocess
import SystemPackage
import Testing

/// Result of a run of the command.
struct Outcome {
  let code: Int32
  let output: [UInt8]
  let errors: String

  var text: String { String(decoding: output, as: UTF8.self) }
  var lines: [String] {
    text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }
}

/// The built command, as its users run it.
enum Moraine {
  /// Path beside the test bundle; `MORAINE_BINARY` names another path, of a release build for
  /// example.
  static let path: String = {
    // A program that ends before it has read all of its input must fail its test, and not end the
    // test process.
    signal(SIGPIPE, SIG_IGN)
    if let path = ProcessInfo.processInfo.environment["MORAINE_BINARY"] { return path }
    let bundles = Bundle.allBundles.filter { $0.bundlePath.hasSuffix(".xctest") }.map(\.bundleURL)
    let places =
      (bundles + [Bundle.main.bundleURL.appendingPathComponent("x")])
      .map { $0.deletingLastPathComponent().appendingPathComponent("moraine").path }
      + CommandLine.arguments.map { ($0 as NSString).deletingLastPathComponent + "/moraine" }
    guard let path = places.first(where: { FileManager.default.isExecutableFile(atPath: $0) })
    else {
      fatalError("there is no moraine in \(places); set MORAINE_BINARY")
    }
    return path
  }()

  static let environment = Environment.inherit.updating(["SWIFT_BACKTRACE": "enable=no"])
  static let outputLimit = 64 << 20

  static func run(_ arguments: String..., input: String? = nil) async throws -> Outcome {
    try await run(arguments, input: input.map { Array($0.utf8) })
  }

  static func run(_ arguments: [String], input: [UInt8]? = nil) async throws -> Outcome {
    try await run(path, arguments, input)
  }

  /// Runs a script in which `$0` is the command.
  static func shell(_ script: String, _ arguments: String...) async throws -> Outcome {
    try await shell(script, arguments)
  }

  static func shell(_ script: String, _ arguments: [String]) async throws -> Outcome {
    try await run("/bin/sh", ["-c", script, path] + arguments, nil)
  }

  private static func run(
    _ program: String, _ arguments: [String], _ input: [UInt8]?
  ) async throws -> Outcome {
    let program = Executable.path(FilePath(program))
    guard let input else {
      let result = try await Subprocess.run(
        program, arguments: Arguments(arguments), environment: environment, input: .none,
        output: .bytes(limit: outputLimit), error: .bytes(limit: outputLimit))
      return Outcome(result.terminationStatus, result.standardOutput, result.standardError)
    }
    let result = try await Subprocess.run(
      program, arguments: Arguments(arguments), environment: environment, input: .array(input),
      output: .bytes(limit: outputLimit), error: .bytes(limit: outputLimit))
    return Outcome(result.terminationStatus, result.standardOutput, result.standardError)
  }
}

extension Outcome {
  /// A signal becomes -1, which is no exit code.
  init(_ status: TerminationStatus, _ output: [UInt8], _ errors: [UInt8]) {
    if case .exited(let code) = status { self.code = code } else { code = -1 }
    self.output = output
    self.errors = String(decoding: errors, as: UTF8.self)
  }
}
