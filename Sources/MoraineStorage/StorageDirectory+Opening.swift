extension StorageDirectory {
  /// Opens a file for reading and writing, and makes it when there is none.
  package func openOrCreateFile(_ name: String) throws(StorageError) -> any StorageFile {
    if let file = try openFile(name, .readWrite) { return file }
    do throws(StorageError) {
      return try createFile(name)
    } catch {
      // Another process may have made it in between.
      if let file = try openFile(name, .readWrite) { return file }
      throw error
    }
  }
}
