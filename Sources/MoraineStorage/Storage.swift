package import SystemPackage

/// Where stores live: the seam through which all input and output of the engine goes.
///
/// The real disk, the one in memory and the simulated one of `MoraineTesting` implement it, so
/// that production and simulation share every line of the engine. No call here waits for anything
/// but the medium; interrupted and short calls are completed below the seam.
package protocol Storage: Sendable {
  /// Opens an existing directory, or answers nil when nothing has that name.
  ///
  /// - Throws: ``StorageError`` when the path is not a directory, is a symbolic link, or may not
  ///   be read.
  func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)?

  /// Makes a directory readable by its owner alone, and makes its name durable in its parent. An
  /// existing directory is not an error; its name becomes durable too.
  func createDirectory(_ path: FilePath) throws(StorageError)

  /// Throws when files cannot be created in the directory, or, where nothing has that name, when
  /// the directory cannot be created in its parent. Creates nothing.
  func checkWritable(_ path: FilePath) throws(StorageError)

  /// The same place by a path that does not depend on the process's current directory.
  func absolute(_ path: FilePath) throws(StorageError) -> FilePath
}

extension Storage {
  /// Storage without permissions is always writable.
  package func checkWritable(_ path: FilePath) throws(StorageError) {}

  /// Paths that are names and no more stay as they are.
  package func absolute(_ path: FilePath) throws(StorageError) -> FilePath { path }
}

/// A file or a directory, whichever path leads to it.
package struct FileIdentity: Hashable, Sendable {
  package var device: UInt64
  package var inode: UInt64

  package init(device: UInt64, inode: UInt64) {
    self.device = device
    self.inode = inode
  }
}

/// The file that a name leads to, as it was last changed. Two equal stamps mean that no call wrote
/// to the file in between; two different ones may mean less than that.
package struct FileStamp: Hashable, Sendable {
  package var identity: FileIdentity
  package var lengthBytes: UInt64
  /// The time of the last change, in nanoseconds, or another number that grows with changes.
  package var changed: UInt64

  package init(identity: FileIdentity, lengthBytes: UInt64, changed: UInt64) {
    self.identity = identity
    self.lengthBytes = lengthBytes
    self.changed = changed
  }
}

package enum EntryKind: Sendable {
  case regular, directory, symbolicLink, other
}

package struct DirectoryEntry: Sendable {
  package var name: String
  package var kind: EntryKind
  package var lengthBytes: UInt64

  package init(name: String, kind: EntryKind, lengthBytes: UInt64) {
    self.name = name
    self.kind = kind
    self.lengthBytes = lengthBytes
  }
}

package enum FileAccess: Sendable {
  case read, readWrite
}

/// An open directory. Names are plain file names; no path is ever followed out of it.
package protocol StorageDirectory: AnyObject, Sendable {
  var path: FilePath { get }
  /// Nil where only the path tells directories apart.
  var identity: FileIdentity? { get }
  func entries() throws(StorageError) -> [DirectoryEntry]
  /// Makes a new file, readable and writable by its owner alone. The name must be free.
  func createFile(_ name: String) throws(StorageError) -> any StorageFile
  /// Opens a regular file; nil when nothing has that name.
  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)?
  func rename(_ source: String, to target: String) throws(StorageError)
  /// Removes a file. A name that is free already is not an error.
  func remove(_ name: String) throws(StorageError)
  /// Makes the names in the directory durable.
  func synchronize() throws(StorageError)
  /// Makes the directory's own name durable in its parent, also where another process made it.
  func synchronizeParent() throws(StorageError)
  /// Gives a file a name in another directory too, which must be free, without copying its bytes:
  /// as a clone, whose blocks are shared until one of the two is written to, or as a hard link.
  /// Bytes and name are durable when the file and the other directory were synced.
  ///
  /// - Parameter linking: whether a hard link will do: one file with two names.
  /// - Returns: false when these file systems cannot; nothing has changed then.
  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool
  /// How much can still be written here, about, in bytes.
  func freeBytes() throws(StorageError) -> UInt64
  /// How much must be free so that a file can be created, in bytes. Most of it is free again
  /// afterwards.
  func creationBytes() throws(StorageError) -> UInt64
  /// Calls the body soon after a file was written to by `write`, until the watch is let go. A hint:
  /// it may call too often. The body must not block.
  ///
  /// - Returns: nil where only asking tells.
  func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)?
  /// True while the path it was opened by still leads to this directory.
  ///
  /// - Throws: where that cannot be found out.
  func isInPlace() throws(StorageError) -> Bool
  /// What a name leads to now; nil when nothing has it. A link is not followed.
  func stamp(of name: String) throws(StorageError) -> FileStamp?
  /// Takes the kernel's advisory lock on the directory itself, which cannot be deleted unnoticed,
  /// without waiting; false when another holder has it. The lock lives as long as this object.
  func tryLock(shared: Bool) throws(StorageError) -> Bool
  /// Gives back what ``tryLock(shared:)`` took.
  func unlock()
  /// Whether another process holds the lock of the directory by the lock of a file in it: see
  /// ``allowParking(with:standIn:)``. The caller has the directory's lock.
  ///
  /// - Parameter standIn: a file that need not exist.
  func isLocked(by standIn: String, shared: Bool) throws(StorageError) -> Bool
  /// From now on the descriptor may be given back while no call uses it. Calls open the directory
  /// again by its path, and throw `ESTALE` when the path leads elsewhere.
  ///
  /// - Parameters:
  ///   - lock: the lock file in this directory. Its descriptor is given back too.
  ///   - standIn: the file whose lock takes the place of the directory's lock. No other process
  ///     replaces it while this object has the lock. Nil where the lock must stay on the directory.
  func allowParking(with lock: any StorageFile, standIn: String?)
  /// Calls the body soon after a name in the directory, or the directory's own, was created,
  /// removed, moved or overwritten, until the watch is let go. A hint: it may call too often.
  ///
  /// - Parameter isOfInterest: which names count. Called on the thread that waits for events.
  /// - Returns: nil where no other process can reach the directory.
  func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)?
}

/// Events of a directory or of a file are told as long as this lives.
package protocol DirectoryWatch: AnyObject, Sendable {}

package enum SyncScope: Sendable {
  /// The bytes of the file and what is needed to read them again.
  case data
  /// Also the rest of its metadata; for new files and changed lengths.
  case full
}

/// An open regular file.
package protocol StorageFile: AnyObject, Sendable {
  /// The name by which it was opened, within its directory.
  var name: String { get }
  var identity: FileIdentity { get }
  func lengthBytes() throws(StorageError) -> UInt64
  /// Fills the buffer; returns less than its size only at the end of the file.
  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  )
    throws(StorageError) -> Int
  /// Writes all of the bytes or throws; a part may then have been written.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError)
  /// Reserves blocks and extends the file with zeros, so that later writes there cannot fail for
  /// want of space.
  func allocate(from start: UInt64, to end: UInt64) throws(StorageError)
  func truncate(to lengthBytes: UInt64) throws(StorageError)
  func synchronize(_ scope: SyncScope) throws(StorageError)
  /// Reads what the medium holds, past the file cache, as ``read(into:at:)`` otherwise. No other
  /// call may use this file object while it runs.
  ///
  /// - Parameters:
  ///   - target: begins at a multiple of 4096 in memory, and has a multiple of 4096 bytes.
  ///   - offset: a multiple of 4096.
  /// - Returns: how many bytes were read; nil where the system cannot read past its cache.
  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int?
  /// Maps the file's first bytes, shared with its other users. May reach beyond the file's end;
  /// touch only what ``allocate(from:to:)`` has reserved.
  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping
  /// The file's first bytes as memory of one's own, writable: changes never reach the file. Where
  /// it can be, a page is read when it is first touched.
  func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping
  /// Makes pages of a mapping present ahead of use, in a part that has zeros only and that nobody
  /// writes to meanwhile; a hint.
  func prefill(_ mapping: any FileMapping, from start: Int, to end: Int)
  /// Takes the kernel's advisory lock without waiting; false when another holder has it. The lock
  /// lives as long as this file object.
  func tryLock(shared: Bool) throws(StorageError) -> Bool
  /// Gives back what ``tryLock(shared:)`` took.
  func unlock()
  /// From now on the descriptor may be given back while no call uses it and no lock is held. Calls
  /// open the file again by its name, and throw `ESTALE` when the name leads to another file or to
  /// none.
  func allowParking()
}

extension StorageFile {
  /// Storage without descriptors gives none back.
  package func allowParking() {}

  package func prefill(_ mapping: any FileMapping, from start: Int, to end: Int) {}

  package func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int? { nil }
}

extension StorageDirectory {
  package var identity: FileIdentity? { nil }

  package func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool { false }

  package func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)? { nil }

  package func isLocked(by standIn: String, shared: Bool) throws(StorageError) -> Bool { false }

  /// Storage without descriptors gives none back.
  package func allowParking(with lock: any StorageFile, standIn: String?) {}

  package func creationBytes() throws(StorageError) -> UInt64 { 0 }

  package func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? { nil }
}

/// Bytes of a file in memory; unmapped when released.
package protocol FileMapping: AnyObject, Sendable {
  var base: UnsafeMutableRawPointer { get }
  var lengthBytes: Int { get }
  /// Makes pages present ahead of use; a hint.
  func prefault(from start: Int, to end: Int)
  /// Says that the bytes up to here will not be written any more and are about to be synced; a
  /// hint that makes the sync cheaper for those who go on in other segments.
  func finishWriting(to end: Int)
}

extension FileMapping {
  package func finishWriting(to end: Int) {}
}
