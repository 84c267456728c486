import Foundation
import MoraineEngine
import Subprocess
import SystemPackage

/// A demonstration with real data: saves durably, is killed, reopens, and checks that nothing is
/// lost.
@main
struct MoraineDemo {
  static func main() async {
    do {
      let arguments = CommandLine.arguments
      guard arguments.count >= 4 else { throw Wrong("moraine-demo run|writer FALLBACK DIRECTORY") }
      let (records, source) = try await Input.records(fallback: arguments[2])
      if arguments[1] == "writer" {
        try await Writer.runUntilKilled(FilePath(arguments[3]), records)
      } else {
        try await Demonstration(
          program: arguments[0], fallback: arguments[2], directory: arguments[3],
          records: records, source: source
        ).run()
      }
    } catch {
      print("FAILED: \(error)")
      exit(1)
    }
  }
}

struct Wrong: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
