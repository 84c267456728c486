import MoraineStorage
public import SystemPackage

extension DiskImage {
  /// Writes the files below a real directory, to be looked at with other tools.
  ///
  /// - Returns: the paths of the directories that were made.
  /// - Throws: an error of the operating system.
  public func save(in parent: FilePath) throws -> [FilePath] {
    let storage = DiskStorage()
    try storage.createDirectory(parent)
    return try directories.sorted { $0.key < $1.key }.map { path, files in
      let target = parent.appending(FilePath(path).lastComponent?.string ?? "store")
      try storage.createDirectory(target)
      guard let directory = try storage.openDirectory(target) else { return target }
      for (name, bytes) in files {
        try directory.remove(name)
        let file = try directory.createFile(name)
        try bytes.withUnsafeBufferPointer { try file.write(UnsafeRawBufferPointer($0), at: 0) }
      }
      return target
    }
  }
}
