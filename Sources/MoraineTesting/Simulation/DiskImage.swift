/// The files of a disk: what a crash left.
public struct DiskImage: Hashable, Sendable {
  /// For each directory's path, its files by name.
  public var directories: [String: [String: [UInt8]]] = [:]

  /// An empty disk.
  public init() {}

  /// All bytes of all files.
  public var totalBytes: Int {
    directories.values.reduce(0) { $0 + $1.values.reduce(0) { $0 + $1.count } }
  }

  /// What its files take on a disk with blocks of 4 KiB.
  public var blockBytes: Int {
    directories.values.reduce(0) { total, files in
      files.values.reduce(total) { $0 + ($1.count + 4095) / 4096 * 4096 }
    }
  }

  /// Differs between images that differ, for all that is likely; 128 bits.
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
