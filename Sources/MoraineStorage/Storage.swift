package import SystemPackage

/// The interface through which all input and output of the engine goes.
///
/// The real disk, the storage in memory and the simulated disk of `MoraineTesting` implement it, so
/// that production and simulation share every line of the engine. No call here waits for anything
/// but the medium. Implementations complete interrupted and short calls.
package protocol Storage: Sendable {
  /// Opens an existing directory. Returns nil when the path does not exist.
  ///
  /// - Throws: ``StorageError`` when the path is not a directory, is a symbolic link, or may not be
  ///   read.
  func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)?

  /// Creates a directory that only its owner can use, and makes its name durable in its parent. An
  /// existing directory is not an error; its name becomes durable too.
  func createDirectory(_ path: FilePath) throws(StorageError)

  /// Removes a directory, if it exists and is empty.
  func removeEmptyDirectory(_ path: FilePath) throws(StorageError)

  /// Throws when files cannot be created in the directory. Where the path does not exist, throws
  /// when the directory cannot be created in its parent. Creates nothing.
  func checkWritable(_ path: FilePath) throws(StorageError)

  /// Returns a path to the same place that does not depend on the process's current directory.
  func absolute(_ path: FilePath) throws(StorageError) -> FilePath
}

extension Storage {
  /// Storage without names of directories has nothing to remove.
  package func removeEmptyDirectory(_ path: FilePath) throws(StorageError) {}

  /// Storage without permissions is always writable.
  package func checkWritable(_ path: FilePath) throws(StorageError) {}

  /// Paths that are only names stay as they are.
  package func absolute(_ path: FilePath) throws(StorageError) -> FilePath { path }
}

/// The identity of a file or a directory, whichever path leads to it.
package struct FileIdentity: Hashable, Sendable {
  package var device: UInt64
  package var inode: UInt64

  package init(device: UInt64, inode: UInt64) {
    self.device = device
    self.inode = inode
  }
}

/// The file that a name leads to, and its length.
package struct FileExtent: Hashable, Sendable {
  package var identity: FileIdentity
  package var lengthBytes: UInt64

  package init(identity: FileIdentity, lengthBytes: UInt64) {
    self.identity = identity
    self.lengthBytes = lengthBytes
  }
}

/// The file that a name leads to, and its last change. Two equal stamps mean that no call wrote to
/// the file in between. Two different stamps do not always mean that a call wrote to it.
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

/// An open directory. Names are plain file names; no path leads out of the directory.
package protocol StorageDirectory: AnyObject, Sendable {
  var path: FilePath { get }
  /// The directory's identity; nil where only the path distinguishes directories.
  var identity: FileIdentity? { get }
  func entries() throws(StorageError) -> [DirectoryEntry]
  /// Creates a file that only its owner can read and write. No file may have the name.
  func createFile(_ name: String) throws(StorageError) -> any StorageFile
  /// Opens a regular file. Returns nil when the name does not exist.
  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)?
  /// Renames a file, which replaces the file that has the target's name. Where both are names of
  /// one file, nothing changes, as POSIX demands.
  func rename(_ source: String, to target: String) throws(StorageError)
  /// Gives a file another name in the directory, unless the other name exists. Of several calls
  /// with one target, of any number of processes, one returns true. The new name is durable after
  /// ``synchronize()``. A crash may leave the file under both names.
  ///
  /// The caller has the source open, and no other call renames it.
  ///
  /// - Returns: false when the target exists; nothing has changed then. True also when an earlier
  ///   call gave the target to this file, and its answer was lost.
  /// - Throws: `ENOTSUP` where the file system cannot do this. After other errors the file may have
  ///   the new name: the answer of a server can be lost.
  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool
  /// Removes a file. It is not an error when the name does not exist.
  func remove(_ name: String) throws(StorageError)
  /// Makes the names in the directory durable.
  func synchronize() throws(StorageError)
  /// Makes the directory's own name durable in its parent, also where another process created it.
  func synchronizeParent() throws(StorageError)
  /// Gives a file a second name, in another directory, without copying its bytes. No file may have
  /// that name. The result is a clone, whose blocks are shared until one of the two is written to,
  /// or a hard link. Bytes and name are durable when the file and the other directory were synced.
  ///
  /// - Parameter linking: whether a hard link is acceptable: one file with two names.
  /// - Returns: false when these file systems cannot do that; nothing has changed then.
  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool
  /// Returns the approximate number of bytes that can still be written here.
  func freeBytes() throws(StorageError) -> UInt64
  /// Returns the number of bytes that must be free so that a file can be created. Most of them are
  /// free again afterwards.
  func creationBytes() throws(StorageError) -> UInt64
  /// Calls the body soon after a file was written to by `write`, until the watch is released. A
  /// hint: it may call too often. The body must not block.
  ///
  /// - Returns: nil where the caller must poll.
  func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)?
  /// Returns whether the path by which the directory was opened still leads to it.
  ///
  /// - Throws: when the path cannot be inspected.
  func isInPlace() throws(StorageError) -> Bool
  /// Returns the file that a name leads to now and its length; nil when the name does not exist. A
  /// link is not followed. Cheaper than ``stamp(of:)`` for a file that is written to: some file
  /// systems note each time of change that was asked for, and the next sync writes it.
  func extent(of name: String) throws(StorageError) -> FileExtent?
  /// Returns the stamp of what a name leads to now; nil when the name does not exist. A link is not
  /// followed.
  func stamp(of name: String) throws(StorageError) -> FileStamp?
  /// Takes the kernel's advisory lock on the directory itself, without waiting. Returns false when
  /// another holder has it. The directory cannot be deleted unnoticed. The lock lasts as long as
  /// this object.
  func tryLock(shared: Bool) throws(StorageError) -> Bool
  /// Gives back what ``tryLock(shared:)`` took.
  func unlock()
  /// Returns whether another process holds the lock of the directory by the lock of a file in it:
  /// see ``allowParking(with:standIn:)``. The caller holds the directory's lock.
  ///
  /// - Parameter standIn: a file that need not exist.
  func isLocked(by standIn: String, shared: Bool) throws(StorageError) -> Bool
  /// Allows the descriptor to be parked from now on, while no call uses it. Calls open the
  /// directory again by its path, and throw `ESTALE` when the path leads elsewhere.
  ///
  /// - Parameters:
  ///   - lock: the lock file in this directory. Its descriptor may be parked too.
  ///   - standIn: the file whose lock takes the place of the directory's lock. No other process
  ///     replaces the file while this object has the lock. Nil where the lock must stay on the
  ///     directory.
  func allowParking(with lock: any StorageFile, standIn: String?)
  /// Calls the body soon after a name in the directory, or the directory's own name, was created,
  /// removed, moved or overwritten, until the watch is released. A hint: it may call too often.
  ///
  /// - Parameter isOfInterest: selects the names that count. Called on the thread that waits for
  ///   events.
  /// - Returns: nil where no other process can reach the directory, or where the system refuses.
  func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)?
}

/// A watch of a directory or of a file. It reports events until it is released.
package protocol DirectoryWatch: AnyObject, Sendable {}

package enum SyncScope: Sendable {
  /// The bytes of the file and what is needed to read them again.
  case data
  /// The bytes and all metadata of the file; for new files and changed lengths.
  case full
}

/// An open regular file.
package protocol StorageFile: AnyObject, Sendable {
  /// The name by which it was opened, within its directory.
  var name: String { get }
  var identity: FileIdentity { get }
  func lengthBytes() throws(StorageError) -> UInt64
  /// Fills the buffer. Returns less than its size only at the end of the file.
  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  )
    throws(StorageError) -> Int
  /// Writes all bytes or throws. When it throws, a part of the bytes may have been written.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError)
  /// Makes the file system overwrite blocks of this file in place, so that the space of
  /// ``allocate(from:to:)`` suffices for every later write, and not only for the first write of
  /// each block. The file is still empty.
  ///
  /// - Throws: `ENOTSUP` where the file system writes every change to new blocks and refuses this.
  func keepInPlace() throws(StorageError)
  /// Reserves blocks and extends the file with zeros, so that later writes there cannot fail for
  /// lack of space. On a file system that writes every change to new blocks, this needs
  /// ``keepInPlace()``.
  func allocate(from start: UInt64, to end: UInt64) throws(StorageError)
  func truncate(to lengthBytes: UInt64) throws(StorageError)
  func synchronize(_ scope: SyncScope) throws(StorageError)
  /// Reads from the medium instead of the file cache, otherwise like ``read(into:at:)``. No other
  /// call may use this file object while it runs.
  ///
  /// - Parameters:
  ///   - target: begins at a multiple of 4096 in memory, and contains a multiple of 4096 bytes.
  ///   - offset: a multiple of 4096.
  /// - Returns: the number of bytes that were read; nil where the system cannot bypass its cache.
  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int?
  /// Begins to read bytes from the disk, without waiting for them; a hint.
  func announceRead(from start: Int, to end: Int) throws(StorageError)
  /// Begins to write bytes to the disk, without waiting for them, so that ``synchronize(_:)`` has
  /// less to do; a hint.
  func announceSync(from start: UInt64, to end: UInt64) throws(StorageError)
  /// Maps the file's first bytes, shared with other users of the file. The mapping may reach beyond
  /// the file's end; access only bytes that ``allocate(from:to:)`` has reserved.
  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping
  /// Returns the file's first bytes as private, writable memory: changes never reach the file.
  /// Where the system can do it, a page is read when it is first accessed.
  func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping
  /// Makes pages of a mapping present before they are used, in a part that contains only zeros and
  /// to which no other thread writes during the call; a hint.
  func prefill(_ mapping: any FileMapping, from start: Int, to end: Int)
  /// Takes the kernel's advisory lock without waiting. Returns false when another holder has it.
  /// The lock lasts as long as this file object.
  func tryLock(shared: Bool) throws(StorageError) -> Bool
  /// Gives back what ``tryLock(shared:)`` took.
  func unlock()
  /// Allows the descriptor to be parked from now on, while no call uses it and no lock is held.
  /// Calls open the file again by its name, and throw `ESTALE` when the name leads to another file
  /// or to none.
  func allowParking()
}

extension StorageFile {
  /// Most storage overwrites in place anyway.
  package func keepInPlace() throws(StorageError) {}

  package func announceRead(from start: Int, to end: Int) throws(StorageError) {}

  package func announceSync(from start: UInt64, to end: UInt64) throws(StorageError) {}

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

/// A mapping of a file's bytes into memory; unmapped when released.
package protocol FileMapping: AnyObject, Sendable {
  var base: UnsafeMutableRawPointer { get }
  var lengthBytes: Int { get }
  /// Makes pages present before they are written to; a hint.
  func prefault(from start: Int, to end: Int)
  /// Makes the pages up to `end` present before they are read; a hint. They were just written, so
  /// they are in the file cache.
  func prefaultForReading(to end: Int)
  /// Begins to read bytes from the disk, without waiting for them; a hint.
  func announceRead(from start: Int, to end: Int)
  /// Declares that the bytes up to `end` are not written any more and are about to be synced. A
  /// hint: it makes the sync cheaper for threads that continue in other segments.
  func finishWriting(to end: Int)
}

extension FileMapping {
  package func announceRead(from start: Int, to end: Int) {}

  package func finishWriting(to end: Int) {}

  package func prefaultForReading(to end: Int) {}
}
