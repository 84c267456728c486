import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// What ties one opening of a shared store to the others: three locks of the kernel and a page.
///
/// - `LOCK` is held shared by all of them, so that nobody opens the store for itself alone.
/// - `SHARED` is held shared by all who write: who gets it exclusively is the first, or the last.
/// - `WRITER` is held exclusively by whoever appends, for as long as it does.
/// - `COMPACTOR` is held exclusively by whoever rewrites segments or writes a checkpoint.
///
/// A kill frees them all. They are never held while an app is suspended.
final class SharedLink: Sendable {
  /// So long another process may take for what it appends.
  static let patienceNanoseconds: UInt64 = 60_000_000_000

  let page: SharedPage
  private let pageFile: any StorageFile
  private let writer: any StorageFile
  private let compactor: any StorageFile

  var files: [any StorageFile] { [pageFile, writer, compactor] }

  /// Opens the files, and makes those that are missing.
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
        try pageFile.allocate(from: 0, to: UInt64(SharedPage.lengthBytes))
      }
      let mapping = try pageFile.map(lengthBytes: SharedPage.lengthBytes, .readWrite)
      return SharedPage(mapping, isWritable: true)
    }
  }

  /// What a reader that changes nothing has of it; nil when the store was never shared.
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

  /// Also a reader tells the others that it is there, where it may.
  private static func page(
    _ directory: any StorageDirectory, _ isWritable: inout Bool
  ) throws(StorageError) -> (any StorageFile)? {
    do throws(StorageError) {
      return try directory.openFile(FileName.sharedPage, .readWrite)
    } catch {
      guard error.errno == .permissionDenied || error.errno == .readOnlyFileSystem else {
        throw error
      }
    }
    isWritable = false
    return try directory.openFile(FileName.sharedPage, .read)
  }

  /// Whether nobody else has the store open for writing; then that stays so until ``joinOthers()``.
  /// The caller has the writer's lock.
  func becomeOnly() throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try pageFile.tryLock(shared: false) }
  }

  /// The lock files that this process has, as the page tells the others.
  var inodes: [SharedPage.Word: UInt64] {
    [.writerInode: writer.identity.inode, .compactorInode: compactor.identity.inode]
  }

  /// Makes sure that this process has the same lock files as those that share the store already:
  /// with another `WRITER` two processes would append at the same time.
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

  /// The caller has the writer's lock.
  func joinOthers() throws(StoreError) {
    let isShared = try storing { () throws(StorageError) in try pageFile.tryLock(shared: true) }
    guard isShared else {
      throw StoreError(
        .locked, "somebody holds the file's lock who is no part of the store; end that program",
        file: FileName.sharedPage)
    }
  }

  /// Whether somebody has the store open for writing. The caller, who does not, has the writer's
  /// lock.
  func isInUse() throws(StoreError) -> Bool {
    guard try becomeOnly() else { return true }
    pageFile.unlock()
    return false
  }

  /// The same for a reader that has no lock and waits for one a second: nothing in the page of
  /// those who have gone is believed. Blocks the calling thread.
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

  /// Blocks the calling thread until no other process appends.
  ///
  /// - Throws: `.locked` when that takes longer than the patience.
  func waitForWriter(
    patienceNanoseconds: UInt64 = SharedLink.patienceNanoseconds
  ) throws(StoreError) {
    var wait = WriterWait(patienceNanoseconds)
    while try !tryWriter() { SystemClock.sleep(nanoseconds: try wait.nextPause(page)) }
  }

  /// The same without occupying a thread.
  func waitForWriterWithoutBlocking() async throws(StoreError) {
    var wait = WriterWait(Self.patienceNanoseconds)
    while try !tryWriter() {
      await ThreadPool.current.sleep(nanoseconds: try wait.nextPause(page))
    }
  }

  /// How long to wait between two looks at the lock; the kernel tells of no release.
  ///
  /// The patience is for one writer that keeps the lock: where others publish, it begins again. It
  /// counts what this process has seen: where the process itself did not run, because the machine
  /// is busy or was asleep, a look counts for a tenth of a second at most.
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
        "another process\(holder) has been writing for \(patience), seen in \(looks) looks; try "
          + "again, or end that process if it is stopped", file: FileName.writerLock)
    }
  }

  func freeWriter() { writer.unlock() }

  func tryCompactor() throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try compactor.tryLock(shared: false) }
  }

  func freeCompactor() { compactor.unlock() }

  /// Wakes the processes that watch, if there are any.
  func ring() throws(StoreError) {
    guard page.hasWatchers() else { return }
    try storing { () throws(StorageError) in
      try [UInt8](repeating: 0, count: 8).withBytes { (bytes) throws(StorageError) in
        try pageFile.write(bytes, at: SharedPage.bellOffset)
      }
    }
  }
}
