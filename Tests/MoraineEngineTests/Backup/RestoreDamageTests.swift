import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage
import Testing

/// Restoring verifies every byte before the store exists; it overwrites nothing that exists.
@Suite(.timeLimit(.minutes(5))) struct RestoreDamageTests {
  /// P5: a backup with any bit flipped is restored correctly, or not at all.
  @Test(arguments: BackupBench.modes)
  func aDamagedBackupMakesNoStore(mode: Store.Configuration.IOMode) async throws {
    let bench = try BackupBench(mode)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<60, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let directory = try #require(try bench.storage.openDirectory(BackupBench.backup))
    var refusalCount = 0
    for entry in try directory.entries() where entry.name != "LOCK" {
      let file = try #require(try directory.openFile(entry.name, .readWrite))
      for offset in stride(from: 0, to: Int(entry.lengthBytes), by: 23) {
        try flip(offset, of: file)
        let path = FilePath("restored \(entry.name) \(offset)")
        do {
          let (store, _) = try await bench.restore(to: path)
          #expect(try await store.everything() == state, "\(entry.name) at \(offset)")
          try await store.close()
        } catch let error as StoreError {
          #expect([.corrupted, .newerFormat, .notAStore].contains(error.code), "\(error)")
          #expect(try bench.names(path) == ["LOCK"] || bench.names(path) == [])
          refusalCount += 1
        }
        try flip(offset, of: file)
      }
    }
    #expect(refusalCount > 50)
    // The backup itself is unchanged.
    let (store, _) = try await bench.restore()
    #expect(try await store.everything() == state)
    try await store.close()
    try await bench.store.close()
  }

  private func flip(_ offset: Int, of file: any StorageFile) throws {
    var byte: [UInt8] = [0]
    _ = try byte.withUnsafeMutableBytes { try file.read(into: $0, at: UInt64(offset)) }
    byte[0] ^= 0x10
    try byte.withUnsafeBytes { try file.write($0, at: UInt64(offset)) }
  }

  /// A directory that contains anything but a backup of this store is not changed.
  @Test func directoryThatIsNoBackupOfTheStoreIsNotOverwritten() async throws {
    let bench = try BackupBench()
    try await bench.store.set([1], forKey: "a")
    let other = try Store(on: bench.storage, at: "other", configuration: bench.configuration)
    let none = await #expect(throws: StoreError.self) {
      _ = try await other.backup(to: BackupBench.backup, on: bench.storage)
    }
    #expect(none?.code == .notAStore, "nothing was written to it")
    try await other.set([2], forKey: "a")
    func code(_ body: () async throws -> Void) async -> StoreError.Code? {
      await #expect(throws: StoreError.self) { try await body() }?.code
    }
    // An open store, a closed store, the backup of another store, and the remains of such a backup.
    #expect(
      await code { _ = try await bench.store.backup(to: "other", on: bench.storage) } == .locked)
    #expect(
      await code { _ = try await bench.store.backup(to: "store", on: bench.storage) } == .locked)
    try await other.close()
    #expect(
      await code { _ = try await bench.store.backup(to: "other", on: bench.storage) }
        == .notAStore)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let again = try Store(on: bench.storage, at: "other", configuration: bench.configuration)
    #expect(
      await code { _ = try await again.backup(to: BackupBench.backup, on: bench.storage) }
        == .notAStore)
    try bench.storage.openDirectory(BackupBench.backup)?.remove("MANIFEST")
    #expect(
      await code { _ = try await again.backup(to: BackupBench.backup, on: bench.storage) }
        == .notAStore)
    // Leftovers of the store's own backup are no obstacle.
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    // A restore accepts only an empty directory.
    for path in ["store", "other", "backup"] as [FilePath] {
      #expect(await code { _ = try await bench.restore(to: path) } == .locked)
    }
    try await again.close()
    #expect(await code { _ = try await bench.restore(to: "other") } == .notAStore)
    #expect(await code { _ = try await bench.restore("nowhere") } == .notAStore)
    #expect(await code { _ = try await bench.restore("store") } == .locked)
    try await bench.store.close()
  }

  /// A copy of the store that was made to be written to is no backup.
  @Test func aCopyOfTheStoreIsNotOverwritten() async throws {
    let bench = try BackupBench()
    try await bench.store.set([1], forKey: "a")
    try await bench.store.close()
    try bench.storage.createDirectory("copy")
    let original = try #require(try bench.storage.openDirectory("store"))
    let copy = try #require(try bench.storage.openDirectory("copy"))
    for name in try bench.names("store") where name != "LOCK" {
      #expect(try original.share(name, into: copy, as: name, linking: true))
    }
    let store = try Store(on: bench.storage, at: "store", configuration: bench.configuration)
    let error = await #expect(throws: StoreError.self) {
      _ = try await store.backup(to: "copy", on: bench.storage)
    }
    #expect(error?.code == .notAStore)
    try await store.close()
  }

  /// A backup cannot be written to by mistake: its sequence numbers would be assigned twice.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func aBackupIsNotWrittenTo(sharing: Store.Configuration.Sharing) async throws {
    let bench = try BackupBench()
    try await bench.store.set([1], forKey: "a")
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    var writing = bench.configuration
    writing.sharing = sharing
    let error = #expect(throws: StoreError.self) {
      _ = try Store(on: bench.storage, at: BackupBench.backup, configuration: writing)
    }
    #expect(error?.code == .readOnly)
    try await bench.store.close()
    // A store that was closed in order can be copied by other means, and restored from the copy.
    let (store, _) = try await bench.restore("store")
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// The directory of an interrupted restore is no store, opening it names the reason, and the
  /// restore can be repeated.
  @Test func interruptedRestoreCanBeRepeated() async throws {
    let bench = try BackupBench()
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<100, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (whole, _) = try await bench.restore(to: "half")
    try await whole.close()
    let directory = try #require(try bench.storage.openDirectory("half"))
    try directory.rename("MANIFEST", to: "RESTORING")
    let error = #expect(throws: StoreError.self) {
      _ = try Store(on: bench.storage, at: "half", configuration: bench.configuration)
    }
    #expect(error?.code == .notAStore && error?.message.contains("start it again") == true)
    let (store, _) = try await bench.restore(to: "half")
    #expect(try await store.everything() == state)
    try await store.close()
    try await bench.store.close()
  }
}
