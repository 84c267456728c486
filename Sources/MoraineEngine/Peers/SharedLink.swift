import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// Connection of one opening of a shared store to the others: locks of the kernel and a page.
///
/// - `LOCK` is held shared by all openings, so that no process opens the store exclusively.
/// - `SHARED` is held shared by all processes that write. A process that gets it exclusively is the
///   first or the last of them.
/// - `WRITER` is held exclusively by the process that appends, while it appends.
/// - `COMPACTOR` is held exclusively by the process that rewrites segments or writes a checkpoint.
///
/// A kill of the process releases all of them. They are never held while an app is suspended.
final class SharedLink: Sendable {
  /// How long another process may take to append.
  static let patienceNanoseconds: UInt64 = 60_000_000_000

  let page: SharedPage
  private let pageFile: any StorageFile
  private let writer: any StorageFile
  private let compactor: any StorageFile
  /// Whether the store has left the link. From then on no task takes the writer's lock with it.
  private let isLeft = Mutex(false)

  var files: [any StorageFile] { [pageFile, writer, compactor] }

  /// Which file contains the page.
  var pageIdentity: FileIdentity { pageFile.identity }

  /// Opens the files, and creates those that are missing.
  init(_ directory: any StorageDirectory) throws(StoreError) {
    let pageFile: any StorageFile
    (pageFile, writer, compactor) = try storing { () throws(StorageError) in
      (
        try directory.openOrCreateFile(FileName.sharedPage),
        try directory.openOrCreateFile(FileName.writerLock),
        try directory.openOrCreateFile(FileName.compactorLock)
      )
    }
    writer.allowParking()
    compactor.allowParking()
    self.pageFile = pageFile
    page = try storing { () throws(StorageError) in
      if try pageFile.lengthBytes() < SharedPage.lengthBytes {
        // The page is overwritten for ever. Where the file system refuses this, the page needs free
        // space, and there is no other place for it.
        do throws(StorageError) { try pageFile.keepInPlace() } catch {
          guard error.isUnsupported else { throw error }
        }
        try pageFile.allocate(from: 0, to: UInt64(SharedPage.lengthBytes))
      }
      let mapping = try pageFile.map(lengthBytes: SharedPage.lengthBytes, .readWrite)
      return SharedPage(mapping, isWritable: true)
    }
  }

  /// Opens the files for a reader, which changes nothing; nil when the store was never shared.
  init?(reading directory: any StorageDirectory) throws(StoreError) {
    var isWritable = true
    let files = try storing { () throws(StorageError) in
      (
        try Self.page(directory, &isWritable),
        try directory.openFile(FileName.writerLock, .read),
        try directory.openFile(FileName.compactorLock, .read)
      )
    }
    guard let pageFile = files.0, let writer = files.1, let compactor = files.2 else { return nil }
    (self.pageFile, self.writer, self.compactor) = (pageFile, writer, compactor)
    let mapping = try storing { () throws(StorageError) -> (any FileMapping)? in
      guard try pageFile.lengthBytes() >= SharedPage.lengthBytes else { return nil }
      return try pageFile.map(
        lengthBytes: SharedPage.lengthBytes, isWritable ? .readWrite : .read)
    }
    guard let mapping else { return nil }
    page = SharedPage(mapping, isWritable: isWritable)
  }

  /// Opens the page, for writing where the reader has that permission: it can then register as a
  /// watcher.
  private static func page(
    _ directory: any StorageDirectory, _ isWritable: inout Bool
  ) throws(StorageError) -> (any StorageFile)? {
    do throws(StorageError) {
      return try directory.openFile(FileName.sharedPage, .readWrite)
    } catch {
      guard error.refusesWriting else { throw error }
    }
    isWritable = false
    return try directory.openFile(FileName.sharedPage, .read)
  }

  /// Whether no other process has the store open for writing. If so, this remains true until
  /// ``joinOthers()``. The caller has the writer's lock.
  func becomeOnly() throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try pageFile.tryLock(shared: false) }
  }

  /// Inodes of the lock files of this process, for the page.
  var inodes: [SharedPage.Word: UInt64] {
    [.writerInode: writer.identity.inode, .compactorInode: compactor.identity.inode]
  }

  /// Checks that this process has the same lock files as the processes that share the store
  /// already: with another `WRITER` two processes would append at the same time.
  ///
  /// - Throws: `.storeReplaced` when one was deleted or replaced.
  func checkLockFiles() throws(StoreError) {
    for (word, file) in [(SharedPage.Word.writerInode, writer), (.compactorInode, compactor)] {
      let inode = page.load(word)
      guard inode == 0 || inode == file.identity.inode else {
        throw StoreError(
          .storeReplaced,
          "\(file.name) was deleted or replaced while other processes have the store open; close "
            + "it in all of them, then open it again", file: file.name)
      }
    }
  }

  /// Joins the processes that have the store open for writing. The caller has the writer's lock.
  func joinOthers() throws(StoreError) {
    let isShared = try storing { () throws(StorageError) in try pageFile.tryLock(shared: true) }
    guard isShared else {
      throw StoreError(
        .locked,
        "a program that does not use the store holds the lock of this file; end that program",
        file: FileName.sharedPage)
    }
  }

  /// Whether a process has the store open for writing. The caller has the writer's lock, and does
  /// not have the store open for writing itself.
  func isInUse() throws(StoreError) -> Bool {
    guard try becomeOnly() else { return true }
    pageFile.unlock()
    return false
  }

  /// Whether a process has the store open for writing, for a reader without the writer's lock. The
  /// reader waits for the lock for up to a second, because it trusts nothing in the page of
  /// processes that have ended. Blocks the calling thread.
  ///
  /// - Throws: `.locked` when a writer keeps the lock for longer.
  func isInUseNow() throws(StoreError) -> Bool {
    try waitForWriter(patienceNanoseconds: 1_000_000_000)
    defer { freeWriter() }
    return try isInUse()
  }

  func tryWriter() throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try writer.tryLock(shared: false) }
  }

  /// Blocks the calling thread until no other process appends, and takes the writer's lock.
  ///
  /// - Throws: `.locked` when that takes longer than the patience.
  func waitForWriter(
    patienceNanoseconds: UInt64 = SharedLink.patienceNanoseconds
  ) throws(StoreError) {
    var wait = WriterWait(patienceNanoseconds)
    while try !tryWriter() { SystemClock.sleep(nanoseconds: try wait.nextPause(page)) }
  }

  /// Waits until no other process appends, without occupying a thread, and takes the writer's lock.
  ///
  /// - Returns: false when the store has left the link; the lock was not taken then.
  func waitForWriterWithoutBlocking() async throws(StoreError) -> Bool {
    var wait = WriterWait(Self.patienceNanoseconds)
    while true {
      // The look and the lock are one step: a store that has left takes no lock any more.
      let hasLock: Bool? = try isLeft.withLock { (isLeft) throws(StoreError) -> Bool? in
        if isLeft { return nil }
        return try tryWriter()
      }
      guard let hasLock else { return false }
      if hasLock { return true }
      await ThreadPool.current.sleep(nanoseconds: try wait.nextPause(page))
    }
  }

  /// Releases all locks, because the store leaves its directory.
  ///
  /// A task that waits for the writer's lock keeps this object until it looks again. `SHARED` would
  /// stay locked until then, and the next opening would join the page of the processes before it.
  /// A forked child must not call this function: the locks are its parent's too.
  func leave() {
    isLeft.withLock { isLeft in
      isLeft = true
      for file in files { file.unlock() }
    }
  }

  /// The pauses between two looks at the lock; the kernel does not report a release.
  ///
  /// The patience is for one writer that keeps the lock: when another writer publishes, the
  /// patience begins again. It counts the time that this process has observed: where the process
  /// itself did not run, because the machine was busy or asleep, a look counts for a tenth of a
  /// second at most.
  struct WriterWait {
    private static let longestLookNanoseconds: UInt64 = 100_000_000
    private let patienceNanoseconds: UInt64
    private var waitedNanoseconds: UInt64 = 0
    private var lastLookNanoseconds: UInt64
    private var pauseNanoseconds: UInt64 = 5_000
    private var looks = 0
    private var version: UInt64?

    init(_ patienceNanoseconds: UInt64, now: UInt64 = SystemClock.monotonicNanoseconds()) {
      self.patienceNanoseconds = patienceNanoseconds
      lastLookNanoseconds = now
    }

    mutating func nextPause(
      _ page: SharedPage, now: UInt64 = SystemClock.monotonicNanoseconds()
    ) throws(StoreError) -> UInt64 {
      let published = page.load(.version)
      looks += 1
      waitedNanoseconds += min(now &- lastLookNanoseconds, Self.longestLookNanoseconds)
      lastLookNanoseconds = now
      if published != version { (waitedNanoseconds, looks, version) = (0, 0, published) }
      guard waitedNanoseconds < patienceNanoseconds else { throw locked(page) }
      defer { pauseNanoseconds = min(pauseNanoseconds * 2, 1_000_000) }
      return pauseNanoseconds
    }

    private func locked(_ page: SharedPage) -> StoreError {
      let process = page.load(.leaseHolder)
      let holder = process == 0 ? "" : " (\(process))"
      let patience = Duration.nanoseconds(Int64(clamping: patienceNanoseconds))
      return StoreError(
        .locked,
        "another process\(holder) has been writing for \(patience), in all \(looks) checks; try "
          + "again, or end that process if it is stopped", file: FileName.writerLock)
    }
  }

  func freeWriter() { writer.unlock() }

  func tryCompactor() throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try compactor.tryLock(shared: false) }
  }

  func freeCompactor() { compactor.unlock() }

  /// Wakes the processes that watch the page, if there are any.
  func ring() throws(StoreError) {
    guard page.hasWatchers() else { return }
    try storing { () throws(StorageError) in
      try [UInt8](repeating: 0, count: 8).withBytes { (bytes) throws(StorageError) in
        try pageFile.write(bytes, at: SharedPage.bellOffset)
      }
    }
  }
}

extension StorageError {
  /// Whether the file may not be opened for writing, and perhaps for reading: no permission, a file
  /// that is marked as immutable, or a file system without writing.
  var refusesWriting: Bool {
    errno == .permissionDenied || errno == .notPermitted || errno == .readOnlyFileSystem
  }
}
