import Foundation

/// The kernel's counts of this process; nil where it does not report them.
enum ThisProcess {
  /// Memory that is no part of a file: the engine's allocations.
  static var anonymousBytes: UInt64? {
    figure(in: "/proc/self/status", after: "RssAnon:").map { $0 * 1024 }
  }

  /// Bytes that the process, or the kernel for the process, has sent to the disk, including changes
  /// of mapped files.
  static var writtenBytes: UInt64? { figure(in: "/proc/self/io", after: "write_bytes:") }

  private static func figure(in path: String, after name: String) -> UInt64? {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    for line in text.split(separator: "\n") where line.hasPrefix(name) {
      return line.dropFirst(name.count).split(whereSeparator: \.isWhitespace).first.flatMap {
        UInt64($0)
      }
    }
    return nil
  }
}

/// Returns the bytes that the files of a folder and its subfolders take on disk, without holes.
func diskBytes(_ folder: String) throws -> UInt64 {
  var sum: UInt64 = 0
  for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
    var status = stat()
    // The file may have been removed since it was listed.
    guard stat("\(folder)/\(name)", &status) == 0 else { continue }
    if status.st_mode & S_IFMT == S_IFDIR {
      sum += try diskBytes("\(folder)/\(name)")
    } else {
      sum += UInt64(status.st_blocks) * 512
    }
  }
  return sum
}
