import Foundation
import SystemPackage

/// A folder for the stores of one run. It is removed after the run.
package struct Scratch: Sendable {
  package let folder: String

  package init(in directory: String) throws {
    folder = "\(directory)/moraine-benchmark-\(ProcessInfo.processInfo.processIdentifier)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
  }

  package func path(_ name: String) -> FilePath { FilePath("\(folder)/\(name)") }

  package func remove(_ name: String) throws {
    try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
  }

  package func remove() {
    do { try FileManager.default.removeItem(atPath: folder) } catch { print(error) }
  }
}

/// Returns the bytes that the files of a folder take on disk, including allocated space that is not
/// in use.
package func allocatedBytes(_ folder: FilePath) throws -> UInt64 {
  var sum: UInt64 = 0
  for name in try FileManager.default.contentsOfDirectory(atPath: folder.string) {
    var status = stat()
    // The file may have been removed since it was listed.
    if stat("\(folder.string)/\(name)", &status) == 0 { sum += UInt64(status.st_blocks) * 512 }
  }
  return sum
}

/// Prints the benchmark's progress on standard error.
package func note(_ text: String) { FileHandle.standardError.write(Data("\(text)\n".utf8)) }

/// The command line that repeats this run.
package var reproduction: String {
  "swift run -c release --package-path Benchmarks MoraineBenchmark "
    + CommandLine.arguments.dropFirst().joined(separator: " ")
}
