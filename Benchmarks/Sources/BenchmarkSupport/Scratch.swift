import Foundation
import SystemPackage

/// A folder for the stores of one run, removed after it.
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

/// What the files of a folder take on disk, room that is only set aside included.
package func allocatedBytes(_ folder: FilePath) throws -> UInt64 {
  var sum: UInt64 = 0
  for name in try FileManager.default.contentsOfDirectory(atPath: folder.string) {
    var status = stat()
    // A file may have gone since it was listed.
    if stat("\(folder.string)/\(name)", &status) == 0 { sum += UInt64(status.st_blocks) * 512 }
  }
  return sum
}

/// Says on standard error how far the benchmark is.
package func note(_ text: String) { FileHandle.standardError.write(Data("\(text)\n".utf8)) }

/// The call that prints the same again.
package var reproduction: String {
  "swift run -c release --package-path Benchmarks MoraineBenchmark "
    + CommandLine.arguments.dropFirst().joined(separator: " ")
}
