import Foundation
import SystemPackage

/// The folder of the program, and entries around it that the program must not change.
///
///     DIRECTORY/           the program's working directory
///       sentinel           must stay as it is
///       subject/           the program's folder
struct GuardedDirectory {
  /// Properties of an entry that every user can read.
  struct Entry: Equatable {
    let type: FileAttributeType?
    let number: Int?
    let length: Int?
    let changed: Date?
    let bytes: Data?
  }

  let path: FilePath
  var folder: FilePath { Self.folder(in: path) }

  private static let sentinel = "sentinel"
  /// Maximum length of a file whose bytes are compared. Longer files are compared by length and
  /// time.
  private static let comparedBytes = 1 << 20

  private let before: [String: Entry]

  /// Creates the directory, or uses an existing one in which no program has run.
  init(at path: FilePath) throws {
    let path = path.absolute
    self.path = path
    let files = FileManager.default
    try files.createDirectory(atPath: path.string, withIntermediateDirectories: true)
    try files.createDirectory(
      atPath: Self.folder(in: path).string, withIntermediateDirectories: false)
    let words = "Nobody but the harness writes here, and the harness only once.\n"
    try Data(words.utf8).write(to: URL(fileURLWithPath: path.appending(Self.sentinel).string))
    before = try Self.entries(in: path)
  }

  static func folder(in path: FilePath) -> FilePath { path.absolute.appending("subject") }

  /// Entries that changed since the beginning.
  func changes() throws -> [String] {
    let now = try Self.entries(in: path)
    return Set(now.keys).union(before.keys).filter { now[$0] != before[$0] }.sorted()
  }

  private static func entries(in path: FilePath) throws -> [String: Entry] {
    let files = FileManager.default
    var entries: [String: Entry] = [:]
    var folders = [""]
    while let folder = folders.popLast() {
      for name in try files.contentsOfDirectory(atPath: path.appending(folder).string) {
        let name = folder.isEmpty ? name : "\(folder)/\(name)"
        let place = path.appending(name).string
        let attributes = try files.attributesOfItem(atPath: place)
        let type = attributes[.type] as? FileAttributeType
        let isSubject = name == "subject"
        if type == .typeDirectory, !isSubject { folders.append(name) }
        let length = attributes[.size] as? Int
        let isRead = type == .typeRegular && (length ?? 0) <= comparedBytes
        // The program's folder must remain the same folder. Its contents may change.
        entries[name] = Entry(
          type: type, number: attributes[.systemFileNumber] as? Int,
          length: type == .typeDirectory ? nil : length,
          changed: isSubject ? nil : attributes[.modificationDate] as? Date,
          bytes: isRead ? try Data(contentsOf: URL(fileURLWithPath: place)) : nil)
      }
    }
    return entries
  }
}

extension FilePath {
  /// Absolute path, for a process with another working directory.
  var absolute: FilePath {
    isAbsolute ? self : FilePath(FileManager.default.currentDirectoryPath).pushing(self)
  }
}
