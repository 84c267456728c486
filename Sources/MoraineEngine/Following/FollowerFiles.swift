package import MoraineFormat
package import MoraineStorage
package import SystemPackage

/// Functions for the directory of a follower whose store is closed.
package enum FollowerFiles {
  /// Puts the files of one follower in the place of another one's.
  ///
  /// A process that is killed leaves either follower, or the files of an interrupted restore, which
  /// the next one removes: everything that a follower has is in its archive.
  ///
  /// - Parameters:
  ///   - path: the directory of the follower that is replaced.
  ///   - staged: the directory of the other one. It has no store afterwards.
  /// - Throws: `.locked`, `.notAStore`, `.noSpace`, `.io`.
  package static func replace(
    at path: FilePath, by staged: FilePath, on storage: any Storage
  ) async throws(StoreError) {
    try await SerialQueue(.lasting).run { () throws(StoreError) in
      let (source, lock) = try RestoreWork.openSource(staged, of: storage, "there is no store")
      do throws(StoreError) {
        try move(source, to: path, storage)
      } catch {
        lock?.unlock()
        throw error
      }
      lock?.unlock()
      try clear(staged, storage)
    }
  }

  private static func move(
    _ source: any StorageDirectory, to path: FilePath, _ storage: any Storage
  ) throws(StoreError) {
    let listing = try DirectoryContents(source)
    guard let manifest = try ManifestFile.read(source, listing), manifest.following != nil else {
      throw StoreError(.notAStore, "the store follows no archive", file: source.path.string)
    }
    let base = try storage.openTarget(path)
    let lock = try DirectoryLock(base)
    defer { lock.free() }
    try empty(base)
    try ManifestFile(base).write(manifest, over: FileName.restoring)
    let copier = SegmentCopier(source: source, target: base, mayLink: true)
    for entry in manifest.segments { _ = try copier.transfer(SegmentCopier.Piece(entry)) { _ in } }
    for number in listing.checkpoints {
      let name = FileName.checkpoint(number)
      // Where files cannot be shared, the opening reads the log instead.
      try storing { () throws(StorageError) in
        _ = try source.share(name, into: base, as: name, linking: true)
      }
    }
    try storing { () throws(StorageError) in try base.synchronize() }
    try ManifestFile(base).write(manifest, over: Manifest.fileName)
    try storing { () throws(StorageError) in try base.remove(FileName.restoring) }
  }

  /// Removes a follower's files, if there are any; an empty directory may be left.
  ///
  /// - Parameter storeID: the store of which a restored copy is removed, too, if nothing was
  ///   written to it; nil for followers alone.
  /// - Throws: `.locked`; `.notAStore` when the directory contains another store.
  package static func remove(
    at path: FilePath, orCopyOf storeID: StoreIdentifier? = nil, on storage: any Storage
  ) async throws(StoreError) {
    try await SerialQueue(.lasting).run { () throws(StoreError) in
      try clear(path, storage, orCopyOf: storeID)
    }
  }

  private static func clear(
    _ path: FilePath, _ storage: any Storage, orCopyOf storeID: StoreIdentifier? = nil
  ) throws(StoreError) {
    let directory = try storing { () throws(StorageError) in try storage.openDirectory(path) }
    guard let directory else { return }
    let lock = try DirectoryLock(directory)
    do throws(StoreError) {
      if let storeID { try giveUpCopy(in: directory, of: storeID) }
      try empty(directory)
    } catch {
      lock.free()
      throw error
    }
    lock.free()
    try storing { () throws(StorageError) in
      try directory.remove(FileName.lock)
      try storage.removeEmptyDirectory(path)
    }
  }

  /// Puts the directory of a restored store in the place of another copy's, which is renamed.
  ///
  /// - Returns: the new path of the other copy.
  /// - Throws: the errors of ``keepAsBranch(_:of:on:)``; the restored store stays where it is. An
  ///   error after the renaming names the new path.
  package static func replaceKeeping(
    _ path: FilePath, by staged: FilePath, of storeID: StoreIdentifier, on storage: any Storage
  ) async throws(StoreError) -> FilePath {
    // Another call for the same path would take the restored store for its own earlier one.
    let lock = try await lockRestored(staged, on: storage)
    defer { lock.free() }
    guard let branch = try await keepAsBranch(path, of: storeID, on: storage) else {
      throw StoreError(
        .notAStore, "the directory has no store, or one that follows an archive", file: path.string)
    }
    do throws(StoreError) {
      try await SerialQueue(.lasting).run { () throws(StoreError) in
        try storing { () throws(StorageError) in
          let (parent, name) = try parent(of: path, storage)
          guard let source = staged.lastComponent?.string else { return }
          try parent.rename(source, to: name)
          try parent.synchronize()
        }
      }
    } catch {
      throw StoreError(
        error.code, "\(error.message); the earlier store is at \(branch) now", file: error.file,
        offset: error.offset, errno: error.errno)
    }
    return branch
  }

  private static func lockRestored(
    _ path: FilePath, on storage: any Storage
  ) async throws(StoreError) -> DirectoryLock {
    try await SerialQueue(.lasting).run { () throws(StoreError) -> DirectoryLock in
      let directory = try storing { () throws(StorageError) in try storage.openDirectory(path) }
      guard let directory else {
        throw StoreError(.notAStore, "the restored store was removed", file: path.string)
      }
      let lock = try DirectoryLock(directory)
      do throws(StoreError) {
        if try DirectoryContents(directory).hasManifest { return lock }
        throw StoreError(.notAStore, "the restored store was removed", file: path.string)
      } catch {
        lock.free()
        throw error
      }
    }
  }

  /// Whether a directory has a store that ``keepAsBranch(_:of:on:)`` renames.
  ///
  /// - Throws: the errors of that function.
  package static func hasBranch(
    _ path: FilePath, of storeID: StoreIdentifier, on storage: any Storage
  ) async throws(StoreError) -> Bool {
    guard try await Store.exists(at: path, on: storage) else { return false }
    return try await SerialQueue(.lasting).run { () throws(StoreError) -> Bool in
      let found = try withBranch(path, of: storeID, storage) { (_) throws(StoreError) -> Bool in
        true
      }
      return found ?? false
    }
  }

  /// Renames the directory of a store that follows no archive, so that a follower can take its
  /// place.
  ///
  /// - Returns: the new path; nil when there is no such store.
  /// - Throws: `.locked` when a process has the store open; `.notAStore` when it is not a copy of
  ///   the store that is archived; `.io`.
  package static func keepAsBranch(
    _ path: FilePath, of storeID: StoreIdentifier, on storage: any Storage
  ) async throws(StoreError) -> FilePath? {
    guard try await Store.exists(at: path, on: storage) else { return nil }
    return try await SerialQueue(.lasting).run { () throws(StoreError) -> FilePath? in
      try withBranch(path, of: storeID, storage) { (manifest) throws(StoreError) -> FilePath in
        try rename(path, "branch-\(manifest.epoch)", storage)
      }
    }
  }

  /// Calls the body with the manifest of a store that follows no archive, while no program has the
  /// store open. Returns nil for a follower.
  private static func withBranch<Result>(
    _ path: FilePath, of storeID: StoreIdentifier, _ storage: any Storage,
    _ body: (Manifest) throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    // A reader's lock would let programs go on that share the store: they would write to the
    // branch.
    let (source, lock) = try RestoreWork.openSource(
      path, of: storage, "there is no store", for: .moving)
    defer { lock?.unlock() }
    guard let manifest = try ManifestFile.read(source, DirectoryContents(source)) else {
      throw StoreError(.notAStore, "the store has no manifest", file: path.string)
    }
    if manifest.following != nil { return nil }
    guard manifest.storeID == storeID else {
      throw StoreError(
        .notAStore, "the directory contains another store than the archive", file: path.string)
    }
    return try body(manifest)
  }

  private static func rename(
    _ path: FilePath, _ suffix: String, _ storage: any Storage
  ) throws(StoreError) -> FilePath {
    try storing { () throws(StorageError) in
      let (parent, name) = try parent(of: path, storage)
      let taken = Set(try parent.entries().map(\.name))
      var target = "\(name).\(suffix)"
      var number = 2
      while taken.contains(target) {
        target = "\(name).\(suffix)-\(number)"
        number += 1
      }
      try parent.rename(name, to: target)
      try parent.synchronize()
      return parent.path.appending(target)
    }
  }

  /// Returns the directory that contains a directory, and the name in it.
  private static func parent(
    of path: FilePath, _ storage: any Storage
  ) throws(StorageError) -> (any StorageDirectory, String) {
    let whole = try storage.absolute(path)
    guard let name = whole.lastComponent?.string,
      let parent = try storage.openDirectory(whole.removingLastComponent())
    else { throw StorageError("rename", file: path.string, errno: .invalidArgument) }
    return (parent, name)
  }

  /// Turns the files of a store that was restored, and to which nothing was written, into those of
  /// an interrupted restore. Does nothing to other files.
  private static func giveUpCopy(
    in directory: any StorageDirectory, of storeID: StoreIdentifier
  ) throws(StoreError) {
    let listing = try DirectoryContents(directory)
    guard listing.hasManifest, let manifest = try ManifestFile.read(directory, listing),
      manifest.storeID == storeID, manifest.following == nil, manifest.isClean,
      let life = manifest.epochs.last, life.epoch == manifest.epoch, life.epoch > 1,
      life.firstSequence > manifest.lastSequence
    else { return }
    try markInterrupted(directory)
  }

  /// Turns the files of a store into those of an interrupted restore, in one step.
  private static func markInterrupted(_ directory: any StorageDirectory) throws(StoreError) {
    try storing { () throws(StorageError) in
      try directory.rename(Manifest.fileName, to: FileName.restoring)
      try directory.synchronize()
    }
  }

  /// Removes all files of a follower from a directory.
  private static func empty(_ directory: any StorageDirectory) throws(StoreError) {
    let listing = try DirectoryContents(directory)
    // Reading without this check refuses the files of an interrupted restore, which are removed.
    if listing.hasManifest, let manifest = try ManifestFile.read(directory, listing) {
      guard manifest.following != nil else {
        throw StoreError(
          .notAStore, "the directory contains a store that follows no archive",
          file: directory.path.string)
      }
      try markInterrupted(directory)
    } else if listing.hasStore, !listing.isRestoring {
      throw StoreError(
        .notAStore, "the directory contains a damaged store", file: directory.path.string)
    }
    try RestoreWork.removeStaged(directory)
  }
}
