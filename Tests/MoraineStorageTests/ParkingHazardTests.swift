#if os(Linux)
  import CTestSupport
  import Foundation
  import Glibc
  import Synchronization
  import SystemPackage
  import Testing

  @testable import MoraineStorage

  /// Signals between a test and a thread of its own.
  private final class OtherThread: Sendable {
    enum Phase: Int, AtomicRepresentable {
      case idle, parking, stopping, ending, ended
    }

    let phase = Atomic(Phase.idle)

    func wait(for wanted: Phase) {
      while phase.load(ordering: .acquiring) != wanted { sched_yield() }
    }

    /// Parks the file each time that the test requests it.
    func park(_ file: DiskFile) {
      while true {
        switch phase.load(ordering: .acquiring) {
        case .parking where !file.park(): continue
        case .parking, .stopping:
          phase.store(.idle, ordering: .releasing)
        case .ending:
          phase.store(.ended, ordering: .releasing)
          return
        case .idle, .ended: continue
        }
      }
    }

    /// Ends the thread: nothing is parked afterwards.
    func stopParking() {
      _ = phase.compareExchange(
        expected: .parking, desired: .stopping, ordering: .acquiringAndReleasing)
      wait(for: .idle)
    }
  }

  /// Hazards between closing a descriptor and opening the file again.
  @Suite(.timeLimit(.minutes(10)), .disabled(if: Ground.othersPark))
  struct ParkingHazardTests {
    private let ground: Ground
    private let directory: DiskDirectory

    init() throws {
      ground = try Ground(.disk)
      directory = try #require(ground.directory as? DiskDirectory)
    }

    private func file(_ name: String) throws -> DiskFile {
      try #require(try directory.createFile(name) as? DiskFile)
    }

    private func path(_ name: String) -> String { ground.path.appending(name).string }

    /// Regression: on overlayfs, which containers use, a mapping belongs to the file of the lower
    /// layer, whose open file holds no lock. A parked store let a second writer in.
    @Test(.enabled(if: getuid() == 0, "only root can mount"))
    func whereMappingsKeepNoLocksADirectoryKeepsItsDescriptor() async {
      await #expect(processExitsWith: .success) {
        var root = Array("/tmp/moraine-overlay-XXXXXX".utf8CString)
        guard mkdtemp(&root) != nil, support_mount_overlay(root) == 1 else { return }
        let path = FilePath(platformString: root).appending("merged")
        func opened() throws -> DiskDirectory {
          try #require(try DiskStorage().openDirectory(path) as? DiskDirectory)
        }
        let directory = try opened()
        _ = try directory.createFile("MANIFEST")
        let lock = try directory.createFile("LOCK")
        #expect(try lock.tryLock(shared: false))
        #expect(try directory.tryLockIfSupported(shared: false, standIn: "MANIFEST"))
        directory.allowParking(with: lock, standIn: "MANIFEST")
        #expect(!directory.park())
        let other = try opened()
        #expect(try !other.openOrCreateFile("LOCK").tryLock(shared: false))
        #expect(try !other.tryLockIfSupported(shared: false, standIn: "MANIFEST"))
      }
    }

    /// Regression: a write ended after a sync that had begun during the write, and the sync took
    /// the file for synced. The descriptor was closed, and with it the errors of the pages of that
    /// write were lost.
    @Test func bytesWrittenDuringASyncAreNotTakenForSynced() throws {
      let file = try file("a")
      file.allowParking()
      let bytes = [UInt8](repeating: 7, count: 64 << 20)
      var count = 0
      for _ in 0..<50 where count < 5 {
        try file.truncate(to: 0)
        try file.synchronize(.data)
        let state = OtherThread()
        try WorkerThread.start {
          do { try bytes.withUnsafeBytes { try file.write($0, at: 0) } } catch {
            Issue.record(error)
          }
          state.phase.store(.ended, ordering: .releasing)
        }
        while try file.lengthBytes() == 0 { sched_yield() }
        try file.synchronize(.data)
        let wasInTime = state.phase.load(ordering: .acquiring) != .ended
        state.wait(for: .ended)
        guard wasInTime else { continue }
        count += 1
        #expect(file.park())
        try file.synchronize(.data)
        #expect(!file.hasDescriptor, "no written byte keeps the descriptor")
      }
      print("\(count) syncs ended during a write")
    }

    /// Regression: a sync that began while the descriptor was being closed synced only the range of
    /// the last mapping, and not the bytes written after that range.
    @Test func aSyncDuringTheParkingCoversTheWholeFile() throws {
      let file = try file("a")
      file.allowParking()
      guard support_dirty_pages(path("a")) >= 0 else { return }
      let state = OtherThread()
      try WorkerThread.start { state.park(file) }
      for round in 0..<1000 {
        try file.truncate(to: 0)
        try file.synchronize(.full)
        try file.write("x", at: 0)
        #expect(file.park())
        try file.write("x", at: 3 << 20)
        state.phase.store(.parking, ordering: .releasing)
        for _ in 0..<(round % 400) { _ = file.hasDescriptor }
        try file.synchronize(.data)
        let count = support_dirty_pages(path("a"))
        #expect(count == 0, "round \(round)")
        state.stopParking()
        if count != 0 { break }
      }
      state.phase.store(.ending, ordering: .releasing)
      state.wait(for: .ended)
    }

    /// Regression: without a descriptor the inode of a deleted file was free for the next file,
    /// which was then taken for the deleted one.
    @Test func inodeNumberOfAParkedFileIsNotReused() throws {
      let file = try file("a")
      try file.write("hello", at: 0)
      try file.synchronize(.full)
      file.allowParking()
      #expect(file.park())
      try directory.remove("a")
      for _ in 0..<20 {
        let substitute = try self.file("a")
        #expect(substitute.identity != file.identity)
        try substitute.write("other", at: 0)
        #expect(try errno { try file.write("lost", at: 0) } == .staleNFSFileHandle)
        #expect(try substitute.bytes(5, at: 0) == Array("other".utf8))
        try directory.remove("a")
      }
    }

    /// Regression: an entry that is no file was reported as an input/output error.
    @Test func entryThatIsNoFileIsNotTheParkedFile() throws {
      let path = path("a")
      let replacements: [() -> CInt] = [
        { mkdir(path, 0o700) }, { mkfifo(path, 0o600) }, { symlink("/dev/null", path) },
        { mknod(path, S_IFSOCK | 0o600, 0) },
      ]
      for (number, replace) in replacements.enumerated() {
        for access in [FileAccess.read, .readWrite] {
          try file("a").write("hello", at: 0)
          let file = try #require(try directory.openFile("a", access) as? DiskFile)
          file.allowParking()
          #expect(file.park())
          try directory.remove("a")
          #expect(replace() == 0)
          let found = try errno { _ = try file.bytes(5, at: 0) }
          #expect(found == .staleNFSFileHandle, "\(number) \(access)")
          #expect(remove(path) == 0)
        }
      }
    }

    /// Regression: a forked child that read through a parked directory locked it for itself, and
    /// the parent took its own directory for a replaced one.
    @Test func aChildDoesNotTakeTheLockOfAParkedDirectory() async {
      await #expect(processExitsWith: .success) {
        alarm(60)
        let ground = try Ground(.disk)
        let directory = try #require(ground.directory as? DiskDirectory)
        _ = try directory.createFile("MANIFEST")
        let lock = try directory.createFile("LOCK")
        #expect(try lock.tryLock(shared: false))
        #expect(try directory.tryLockIfSupported(shared: false, standIn: "MANIFEST"))
        directory.allowParking(with: lock, standIn: "MANIFEST")
        #expect(directory.park())
        Inherited.directory.withLock { $0 = directory }
        let child = support_begin_child {
          alarm(60)
          do {
            _ = try Inherited.directory.withLock { $0 }?.freeBytes()
          } catch { _exit(1) }
        }
        defer { support_end_child(child) }
        try #require(child > 0)
        #expect(try directory.freeBytes() > 0)
      }
    }

    private enum Inherited {
      static let directory = Mutex<DiskDirectory?>(nil)
    }

    /// Regression: a lock that was released at the moment in which the descriptor was closed stayed
    /// with the processes that had a copy of the descriptor.
    @Test func fileParkedDuringAnUnlockIsUnlocked() throws {
      let file = try file("WRITER")
      file.allowParking()
      let other = try #require(try ground.storage.openDirectory(ground.path))
      let second = try #require(try other.openFile("WRITER", .readWrite))
      let state = OtherThread()
      try WorkerThread.start { state.park(file) }
      for round in 0..<500 {
        #expect(try file.tryLock(shared: false))
        let copies = try #require(ParkingTests.copies(of: ground.path.appending("WRITER")))
        #expect(copies.count == 2)
        state.phase.store(.parking, ordering: .releasing)
        file.unlock()
        let isFree = try second.tryLock(shared: false)
        second.unlock()
        state.stopParking()
        for copy in copies { close(copy) }
        #expect(isFree, "round \(round)")
        if !isFree { break }
      }
      state.phase.store(.ending, ordering: .releasing)
      state.wait(for: .ended)
    }

    /// Regression: below the limit nothing was ever removed from the queue, so the memory of a
    /// process that opened and closed stores grew without bound.
    @Test func releasedObjectsLeaveTheQueue() {
      final class Thing: Parkable {
        func park() -> Bool { true }
        func takeReference() -> Bool { false }
      }
      let pool = DescriptorPool()
      let living = (0..<2000).map { _ in Thing() }
      for thing in living { pool.add(thing) }
      for _ in 0..<100_000 { pool.add(Thing()) }
      #expect(pool.queueCount < 10_000)
      pool.parkAll()
      #expect(pool.parkings == living.count)
    }

    /// Regression: after the rename of a manifest, a directory without a descriptor ended writing
    /// when the process had no free descriptor for a moment.
    @Test func aDirectoryIsSyncedWhenThereIsADescriptorAgain() async {
      await #expect(processExitsWith: .success) {
        let ground = try Ground(.disk)
        let directory = try #require(ground.directory as? DiskDirectory)
        let lock = try directory.createFile("LOCK")
        directory.allowParking(with: lock, standIn: nil)
        DescriptorPool.current.parkAll()
        var before = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before)
        let lifted = before
        var none = before
        none.rlim_cur = 0
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
        try WorkerThread.start {
          SystemClock.sleep(nanoseconds: 50_000_000)
          var limit = lifted
          setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
        try directory.synchronize()
      }
    }
  }
#endif
