import Foundation

extension Report.Machine {
  /// Returns this machine, and the file system of a folder.
  static func current(_ directory: String) throws -> Self {
    let info = ProcessInfo.processInfo
    return Self(
      processor: processor ?? "unknown processor", coreCount: info.activeProcessorCount,
      memoryBytes: info.physicalMemory, fileSystem: fileSystem(directory) ?? "unknown file system",
      operatingSystem: info.operatingSystemVersionString)
  }

  private static var processor: String? {
    lines("/proc/cpuinfo")?.first { $0.hasPrefix("model name") }
      .flatMap { $0.split(separator: ":", maxSplits: 1).last }
      .map { $0.trimmingCharacters(in: .whitespaces) }
  }

  /// Returns the type of the mount with the longest mount point above the folder.
  private static func fileSystem(_ directory: String) -> String? {
    let path = URL(fileURLWithPath: directory).standardizedFileURL.path
    let mounts = (lines("/proc/self/mounts") ?? []).map { $0.split(separator: " ") }
    return mounts.filter { mount in
      mount.count > 2
        && (mount[1] == "/" || path == mount[1] || path.hasPrefix("\(mount[1])/"))
    }.max { $0[1].count < $1[1].count }.map { String($0[2]) }
  }

  /// Returns the lines of a file, or nil where it does not exist: on systems other than Linux.
  private static func lines(_ path: String) -> [Substring]? {
    FileManager.default.contents(atPath: path).map {
      String(decoding: $0, as: UTF8.self).split(separator: "\n")
    }
  }
}
