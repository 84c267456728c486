import Foundation
import Subprocess
import Synchronization
import SystemPackage

/// A built server, started as a user starts it.
public struct ServerProcess: Sendable {
  private let program: String

  /// - Parameter program: the name of the program.
  public init(_ program: String) { self.program = program }

  /// Returns the path of the program, which is next to the test bundle.
  private func path() throws -> FilePath {
    let bundles = Bundle.allBundles.map(\.bundlePath).filter { $0.hasSuffix(".xctest") }
    let places = (bundles + CommandLine.arguments).map {
      FilePath($0).removingLastComponent().appending(program)
    }
    guard
      let path = places.first(where: { FileManager.default.isExecutableFile(atPath: $0.string) })
    else { throw Failure(text: "there is no \(program) in \(places)") }
    return path
  }

  /// Runs the program with arguments that it refuses or that let it end by itself.
  ///
  /// - Returns: its exit code, which is -1 for a signal, and its errors.
  public func run(_ arguments: [String]) async throws -> (code: Int32, errors: String) {
    let result = try await Subprocess.run(
      .path(try path()), arguments: Arguments(arguments), input: .none, output: .discarded,
      error: .string(limit: 1 << 20))
    return (code(result.terminationStatus), result.standardError)
  }

  /// Starts the server, calls the body with its address, and ends the server with a signal.
  ///
  /// - Parameters:
  ///   - arguments: the arguments. They let the server use a free port.
  ///   - body: also receives a function that sends the signal earlier.
  /// - Returns: the exit code, which is -1 for a signal.
  public func serve(
    _ arguments: [String], endingWith signal: Signal,
    _ body: @Sendable (String, @escaping @Sendable () throws -> Void) async throws -> Void
  ) async throws -> Int32 {
    let result = try await Subprocess.run(
      .path(try path()), arguments: Arguments(arguments),
      environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
      input: .none, output: .sequence, error: .discarded
    ) { execution in
      var lines = execution.standardOutput.strings().makeAsyncIterator()
      let line = try await lines.next() ?? ""
      let address = line.split(separator: " ").last.map(String.init) ?? ""
      guard address.hasPrefix("http://") else { throw Failure(text: "the server says '\(line)'") }
      let isEnding = Mutex(false)
      let end: @Sendable () throws -> Void = {
        let isFirst = isEnding.withLock { isEnding in
          defer { isEnding = true }
          return !isEnding
        }
        if isFirst { try execution.send(signal: signal) }
      }
      do { try await body(address.trimmingCharacters(in: .newlines), end) } catch {
        try end()
        throw error
      }
      try end()
    }
    return code(result.terminationStatus)
  }

  private func code(_ status: TerminationStatus) -> Int32 {
    if case .exited(let code) = status { code } else { -1 }
  }

  struct Failure: Error {
    let text: String
  }
}
