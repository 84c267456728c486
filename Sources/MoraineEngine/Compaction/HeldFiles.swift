import MoraineStorage

extension Store {
  /// Returns the files of replaced segments that no snapshot may read. The other files are removed
  /// when the last snapshot that may read them is released, unless the store has left the directory
  /// before that.
  func heldBack(_ names: [String]) -> [String] {
    let (directory, stay) = (engine!.directoryHandle(), pipeline.stay)
    return readers.live.removable(names) { [pipeline] names in
      // The thread that releases a snapshot need not wait for the disk.
      pipeline.enqueue { refusal in
        guard refusal == nil, pipeline.stay == stay else { return }
        do throws(StoreError) { try pipeline.remove(names, in: directory) } catch {
          // The next opening of the store removes the files that are left.
        }
      }
    }
  }
}

extension CommitPipeline {
  /// Removes files that the manifest no longer lists. Runs on the committing thread.
  func remove(_ names: [String], in directory: any StorageDirectory) throws(StoreError) {
    if names.isEmpty { return }
    if let poison { throw poison }
    // The names may belong to another store by now.
    try checkPresence()
    try storing { () throws(StorageError) in
      for name in names { try directory.remove(name) }
    }
  }
}
