import MoraineStorage
public import SystemPackage

/// The files that a crash left on a disk.
public struct DiskImage: Hashable, Sendable {
  /// The files of each directory: path of the directory, name of the file, bytes.
  public var directories: [String: [String: [UInt8]]] = [:]

  /// Creates an empty image.
  public init() {}

  /// The total length of all files.
  public var totalBytes: Int {
    directories.values.reduce(0) { $0 + $1.values.reduce(0) { $0 + $1.count } }
  }

  /// The space that the files take on a disk with blocks of 4 KiB.
  public var blockBytes: Int {
    directories.values.reduce(0) { total, files in
      files.values.reduce(total) { $0 + ($1.count + 4095) / 4096 * 4096 }
    }
  }

  /// A digest of 128 bits; images that differ have different digests, except for a negligible
  /// chance.
  var fingerprint: Fingerprint {
    Fingerprint(high: digest(salt: 1), low: digest(salt: 2))
  }

  struct Fingerprint: Hashable, Sendable {
    let high: Int
    let low: Int
  }

  private func digest(salt: Int) -> Int {
    var hasher = Hasher()
    hasher.combine(salt)
    for (path, files) in directories.sorted(by: { $0.key < $1.key }) {
      hasher.combine(path)
      for (name, bytes) in files.sorted(by: { $0.key < $1.key }) {
        hasher.combine(name)
        hasher.combine(bytes.count)
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
      }
    }
    return hasher.finalize()
  }
}

extension DiskImage {
  /// Writes the files into a real directory, so that other programs can read them.
  ///
  /// - Returns: the paths of the directories that were created.
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
