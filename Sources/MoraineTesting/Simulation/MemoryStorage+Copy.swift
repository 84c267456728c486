package import MoraineStorage
package import SystemPackage

extension MemoryStorage {
  /// Copies the files of a directory, as an image of a disk does.
  ///
  /// - Throws: `ENOENT` when the source is missing; the errors of the calls.
  package func copyDirectory(_ source: FilePath, to target: FilePath) throws(StorageError) {
    try createDirectory(target)
    guard let from = try openDirectory(source), let to = try openDirectory(target) else {
      throw StorageError("open", file: source.string, errno: .noSuchFileOrDirectory)
    }
    for entry in try from.entries() {
      guard let file = try from.openFile(entry.name, .read) else { continue }
      let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: Int(try file.lengthBytes()), alignment: 16)
      defer { buffer.deallocate() }
      let count = try file.read(into: buffer, at: 0)
      let copy = try to.createFile(entry.name)
      try copy.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: 0)
    }
  }
}
