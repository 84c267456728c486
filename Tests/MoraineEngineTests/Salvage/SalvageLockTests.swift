import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A salvage keeps other programs out: a compaction of one of them would remove segments before the
/// salvage has read them.
@Suite(.timeLimit(.minutes(10))) struct SalvageLockTests {
  private let storage = MemoryStorage()

  private func open(_ configuration: Store.Configuration) throws -> Store {
    try Store(on: storage, at: "store", configuration: configuration)
  }

  private func expectLocked(_ body: () async throws -> Void) async {
    let error = await #expect(throws: StoreError.self) { try await body() }
    #expect(error?.code == .locked, "\(String(describing: error))")
  }

  @Test func salvageBesideAProgramThatSharesTheStoreIsRefused() async throws {
    let sharing = try open(.shared())
    try await sharing.set([1], forKey: "a")
    await expectLocked { _ = try await Store.salvage("store", to: "new", on: storage) }
    // The survey of `doctor` reads beside the program.
    #expect(try await Store.survey("store", on: storage).recordCount == 1)
    try await sharing.close()
    #expect(try await Store.salvage("store", to: "new", on: storage).count == 1)
  }

  @Test func noProgramOpensTheStoreBeforeTheSalvageEnds() async throws {
    let store = try open(.testing())
    try await store.set([1], forKey: "a")
    try await store.close()
    let work = try SalvageWork(storage, "store", for: .readingAlone)
    await expectLocked { _ = try open(.testing()) }
    await expectLocked { _ = try open(.shared()) }
    work.free()
    let again = try open(.shared())
    #expect(try await again.value(forKey: "a") == [1])
    try await again.close()
  }

  /// Returns the storage, which refuses the first call of a kind on a file.
  private func refusing(
    _ operation: StorageEvent.Operation, _ file: String, _ errno: Errno
  ) -> FaultStorage {
    let faulty = FaultStorage(storage)
    let count = Mutex(0)
    faulty.setScript { event in
      guard event.operation == operation, event.file == file else { return nil }
      let isFirst = count.withLock { count in
        count += 1
        return count == 1
      }
      return isFirst ? .fail(errno) : nil
    }
    return faulty
  }

  /// A file that is marked as immutable, for example.
  @Test(arguments: [Errno.permissionDenied, .notPermitted, .readOnlyFileSystem])
  func storeWhoseLockFileMayNotBeWrittenIsSalvaged(refusal: Errno) async throws {
    let store = try open(.testing())
    try await store.set([1], forKey: "a")
    try await store.close()
    let work = try SalvageWork(
      refusing(.openFile, FileName.lock, refusal), "store", for: .readingAlone)
    await expectLocked { _ = try open(.testing()) }
    work.free()
    try await open(.testing()).close()
  }

  /// NFS refuses an exclusive lock on a file that is open for reading only.
  @Test func sharedLockTakesThePlaceOfALockThatIsRefused() async throws {
    let store = try open(.testing())
    try await store.set([1], forKey: "a")
    try await store.close()
    let work = try SalvageWork(
      refusing(.lock, FileName.lock, .badFileDescriptor), "store", for: .readingAlone)
    await expectLocked { _ = try open(.testing()) }
    work.free()
    try await open(.testing()).close()
  }

  @Test func salvageOfAStoreWithoutALockFileKeepsOthersOut() async throws {
    let store = try open(.shared())
    try await store.set([1], forKey: "a")
    try await store.close()
    let directory = try #require(try storage.openDirectory("store"))
    try directory.remove(FileName.lock)
    // As a program does that has opened the store before `LOCK` was removed.
    #expect(try directory.tryLock(shared: true))
    await expectLocked { _ = try SalvageWork(storage, "store", for: .readingAlone) }
    directory.unlock()
    let work = try SalvageWork(storage, "store", for: .readingAlone)
    await expectLocked { _ = try open(.shared()) }
    work.free()
    try await open(.shared()).close()
  }
}
