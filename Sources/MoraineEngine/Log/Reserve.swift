import MoraineStorage

/// A file that keeps back a little space, so that deletes still work on a full disk.
struct Reserve {
  static let fileName = "RESERVE"
  static let lengthBytes: UInt64 = 64 << 10

  let directory: any StorageDirectory
  var isKept = false

  init(directory: any StorageDirectory) {
    self.directory = directory
  }

  /// Takes the space, if it is not taken yet. Where a file system cannot reserve, there is no
  /// reserve, and that is no error.
  mutating func keep() throws(StorageError) {
    guard !isKept else { return }
    do throws(StorageError) {
      var file = try directory.openFile(Self.fileName, .readWrite)
      if file == nil { file = try directory.createFile(Self.fileName) }
      try file?.allocate(from: 0, to: Self.lengthBytes)
    } catch {
      if !error.isUnsupported {
        try directory.remove(Self.fileName)
        throw error
      }
    }
    isKept = true
  }

  mutating func release() throws(StorageError) {
    try directory.remove(Self.fileName)
    isKept = false
  }
}
