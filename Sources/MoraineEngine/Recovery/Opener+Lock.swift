import MoraineFormat
import MoraineStorage
import SystemPackage

extension Opener {
  /// The kernel's lock; it goes with the process, and what the file says is a hint only.
  ///
  /// - Returns: nil for a reader of a copy that came without a lock file: it changes nothing.
  func takeLock(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)? {
    guard let file = try lockFile(directory) else { return nil }
    var isTaken = try tryLock(file, directory)
    if !isTaken { isTaken = try waitForOwnStore(file, directory) }
    if isTaken { return held(file, directory) }
    throw lockedError(file, directory)
  }

  /// The directory of a shared store keeps its descriptor: other processes replace the manifest, so
  /// the lock on the directory cannot move there.
  private func held(_ file: any StorageFile, _ directory: any StorageDirectory) -> HeldLock {
    if configuration.isReadOnly {
      // A reader has the lock only while it opens.
      directory.allowParking(with: file, standIn: nil)
      file.allowParking()
    } else if !isShared {
      directory.allowParking(with: file, standIn: Manifest.fileName)
    }
    return HeldLock(file, directory)
  }

  /// Takes the lock on `LOCK`, and the same lock on the directory itself: deleting `LOCK` lets no
  /// second writer in.
  ///
  /// - Returns: false when another opening has one of them; neither is taken then.
  private func tryLock(
    _ file: any StorageFile, _ directory: any StorageDirectory
  ) throws(StoreError) -> Bool {
    let shared = configuration.isReadOnly || isShared
    return try storing { () throws(StorageError) in
      guard try file.tryLock(shared: shared) else { return false }
      var isTaken = false
      defer { if !isTaken { file.unlock() } }
      isTaken = try directory.tryLockIfSupported(shared: shared, standIn: Manifest.fileName)
      return isTaken
    }
  }

  /// Waits while a store of this process that is being closed or released has the lock: the program
  /// has let go of that store, and cannot see that it still is at work. Blocks the calling thread,
  /// for ten seconds at most.
  ///
  /// - Returns: whether the lock is taken now.
  private func waitForOwnStore(
    _ file: any StorageFile, _ directory: any StorageDirectory
  ) throws(StoreError) -> Bool {
    guard let identity = directory.identity else { return false }
    let began = Machine.monotonicNanoseconds()
    var pause: UInt64 = 5_000
    while true {
      // Asked before the attempt: a store that leaves in between is waited for once more.
      let holder = StoreLife.holder(of: identity)
      if try tryLock(file, directory) { return true }
      guard holder == .leaving,
        Machine.monotonicNanoseconds() - began < Self.leavingPatienceNanoseconds
      else { return false }
      Machine.sleep(nanoseconds: pause)
      pause = min(pause * 2, 1_000_000)
    }
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

  private func lockedError(
    _ file: any StorageFile, _ directory: any StorageDirectory
  ) -> StoreError {
    switch directory.identity.map(StoreLife.holder) ?? .elsewhere {
    case .elsewhere: break
    case .inUse:
      return StoreError(
        .locked, "this process has the store open already; use that store, or close it first",
        file: path.string)
    case .leaving:
      return StoreError(
        .locked, "this process is still closing the store; await close() before opening it again",
        file: path.string)
    }
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

/// The lock on `LOCK` and the one on the directory, which are given back together.
final class HeldLock: StorageFile {
  private let file: any StorageFile
  private let directory: any StorageDirectory

  init(_ file: any StorageFile, _ directory: any StorageDirectory) {
    self.file = file
    self.directory = directory
  }

  /// The directory's object may live longer than the lock, for example in a snapshot.
  deinit { directory.unlock() }

  func unlock() {
    file.unlock()
    directory.unlock()
  }

  var name: String { file.name }
  var identity: FileIdentity { file.identity }
  func lengthBytes() throws(StorageError) -> UInt64 { try file.lengthBytes() }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int { try file.read(into: target, at: offset) }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    try file.write(bytes, at: offset)
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    try file.allocate(from: start, to: end)
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    try file.truncate(to: lengthBytes)
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) { try file.synchronize(scope) }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    try file.map(lengthBytes: lengthBytes, access)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool { try file.tryLock(shared: shared) }
}
