import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The text in the lock file is a hint for people; the lock itself belongs to the kernel.
@Suite struct LockHintTests {
  /// Regression: a hint that could not be read was reported as `.io`, as if the disk prevented the
  /// opening.
  @Test func lockedStoreWithAnUnreadableHintIsStillLocked() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    storage.setScript { event in
      event.operation == .read && event.file == "LOCK" ? .fail(.ioError) : nil
    }
    let error = #expect(throws: StoreError.self) {
      try Store(on: storage, at: "store", configuration: .testing())
    }
    #expect(error?.code == .locked)
    #expect(error?.file == "store")
    #expect(error?.message.contains("process") == false)
    storage.setScript(nil)
    let hinted = #expect(throws: StoreError.self) {
      try Store(on: storage, at: "store", configuration: .testing())
    }
    #expect(hinted?.message.contains("process \(CurrentProcess.id)") == true)
    try await store.set([2], forKey: "a")
    try await store.close()
  }

  /// Regression: readers and sharing processes leave no name. The name in the file may belong to a
  /// process that ended long ago, and the error named that process as the one to end.
  @Test func exitedProcessIsNotNamed() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    let directory = try #require(try storage.openDirectory("store"))
    let lock = try #require(try directory.openFile("LOCK", .readWrite))
    try Array("\(Int32.max)\n".utf8).withUnsafeBytes { try lock.write($0, at: 0) }
    let error = #expect(throws: StoreError.self) {
      try Store(on: storage, at: "store", configuration: .testing())
    }
    #expect(error?.code == .locked && error?.message.contains("process") == false)
    try await store.close()
  }
}
