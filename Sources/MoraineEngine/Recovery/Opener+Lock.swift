import MoraineFormat
import MoraineStorage
import SystemPackage

extension Opener {
  /// The kernel's lock; it goes with the process, and what the file says is a hint only.
  ///
  /// - Returns: nil for a reader of a copy that came without a lock file: it changes nothing.
  func takeLock(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)? {
    guard let file = try lockFile(directory) else { return nil }
    let isOurs = try storing { () throws(StorageError) in
      try file.tryLock(shared: configuration.isReadOnly || isShared)
    }
    guard isOurs else { throw lockedError(file) }
    return file
  }

  private func lockFile(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)?
  {
    guard configuration.isReadOnly else { return try Self.makeLockFile(directory) }
    return try storing { () throws(StorageError) in try directory.openFile(Self.lockName, .read) }
  }

  /// The file that the lock is on; made when it is missing.
  static func makeLockFile(
    _ directory: any StorageDirectory
  ) throws(StoreError) -> any StorageFile {
    try storing { () throws(StorageError) in try directory.openOrCreateFile(lockName) }
  }

  func nameHolder(in lock: (any StorageFile)?) throws(StoreError) {
    guard let lock, !configuration.isReadOnly, !isShared else { return }
    let text = Array("\(Machine.processID)\n".utf8)
    do throws(StorageError) {
      try lock.truncate(to: 0)
      try text.withBytes { (raw) throws(StorageError) in try lock.write(raw, at: 0) }
    } catch {
      // A hint for people; a full disk must not keep its store from being opened and cleaned.
      guard error.isNoSpace else { throw StoreError(error) }
    }
  }

  private func lockedError(_ file: any StorageFile) -> StoreError {
    var text = [UInt8](repeating: 0, count: 20)
    var count = 0
    text.withUnsafeMutableBytes { target in
      // The lock is held, whatever the file says, and also when it cannot be read.
      do throws(StorageError) { count = try file.read(into: target, at: 0) } catch {}
    }
    // Who had it before may have left its name: readers and sharing processes leave none.
    let name = String(decoding: text[..<count].prefix { $0 != 10 }, as: UTF8.self)
    let holder = Int32(name).flatMap { Machine.hasProcess($0) ? $0 : nil }
    let hint = holder.map { " (process \($0), it seems)" } ?? ""
    return StoreError(
      .locked, "the store is open elsewhere\(hint); close it there first", file: path.string)
  }
}
