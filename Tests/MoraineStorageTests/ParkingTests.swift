import Foundation
import SystemPackage
import Testing

@testable import MoraineStorage

/// Descriptors that are closed while no call uses them.
@Suite(
  .timeLimit(.minutes(10)), .enabled(if: Descriptor.canPark), .disabled(if: Ground.othersPark),
  .disabled(if: Ground.isOnOverlay, "no directory is parked on overlayfs")
) struct ParkingTests {
  private let ground: Ground
  private let directory: DiskDirectory

  init() throws {
    ground = try Ground(.disk)
    directory = try #require(ground.directory as? DiskDirectory)
  }

  private func file(_ name: String) throws -> DiskFile {
    try #require(try directory.createFile(name) as? DiskFile)
  }

  /// Opens the directory again, as another process does.
  private func other() throws -> any StorageDirectory {
    try #require(try ground.storage.openDirectory(ground.path))
  }

  @Test func parkedFilesAndDirectoriesAreUsedAsBefore() throws {
    let file = try file("a")
    try file.write("hello", at: 0)
    directory.allowParking(with: file, standIn: nil)
    file.allowParking()
    for round in UInt64(0)..<10 {
      #expect(file.park())
      #expect(directory.park())
      #expect(try file.bytes(5, at: 5 * round) == Array("hello".utf8))
      #expect(!directory.park() || file.park())
      try file.write("hello", at: 5 * (round + 1))
      #expect(directory.park())
      #expect(try directory.entries().map(\.name) == ["a"])
      #expect(try file.lengthBytes() == 5 * (round + 2))
      try file.synchronize(round % 2 == 0 ? .data : .full)
    }
  }

  @Test func aParkedFileThatWasReplacedIsNotOpenedAgain() throws {
    let file = try file("a")
    file.allowParking()
    #expect(file.park())
    let substitute = try self.file("b")
    try substitute.write("other", at: 0)
    try directory.rename("b", to: "a")
    #expect(try errno { _ = try file.bytes(5, at: 0) } == .staleNFSFileHandle)
    try directory.remove("a")
    #expect(try errno { try file.write("x", at: 0) } == .staleNFSFileHandle)
  }

  @Test func aParkedDirectoryThatWasReplacedIsNotOpenedAgain() throws {
    let lock = try file("LOCK")
    directory.allowParking(with: lock, standIn: nil)
    #expect(directory.park())
    let moved = ground.path.string + ".moved"
    try FileManager.default.moveItem(atPath: ground.path.string, toPath: moved)
    #expect(try errno { _ = try directory.createFile("a") } == .staleNFSFileHandle)
    try ground.storage.createDirectory(ground.path)
    #expect(try errno { _ = try directory.createFile("a") } == .staleNFSFileHandle)
    #expect(try directory.isInPlace() == false)
    #expect(try other().entries().isEmpty)
  }

  /// The mapping that keeps the file open is synced: `strace` shows only `msync`.
  @Test func aParkedFileIsSyncedWithoutADescriptor() throws {
    let file = try file("a")
    try file.allocate(from: 0, to: 1 << 16)
    let mapping = try file.map(lengthBytes: 1 << 20, .readWrite)
    file.allowParking()
    for round in UInt8(1)..<10 {
      #expect(file.park())
      #expect(!file.park())
      mapping.base.storeBytes(of: round, toByteOffset: 4096 * Int(round), as: UInt8.self)
      try file.synchronize(.data)
      #expect(!file.hasDescriptor)
      #expect(try file.bytes(1, at: 4096 * UInt64(round)) == [round])
      #expect(file.hasDescriptor)
      try file.synchronize(.data)
    }
  }

  @Test func aLockedFileIsNotParked() throws {
    let file = try file("WRITER")
    file.allowParking()
    #expect(try file.tryLock(shared: false))
    #expect(!file.park())
    file.unlock()
    #expect(file.park())
    #expect(try file.tryLock(shared: false))
    let second = try #require(try other().openFile("WRITER", .readWrite))
    #expect(try !second.tryLock(shared: true))
    file.unlock()
    #expect(try second.tryLock(shared: true))
  }

  private struct Locked {
    let lock: DiskFile
    let manifest: DiskFile
  }

  private func locked(shared: Bool = false) throws -> Locked {
    let manifest = try file("MANIFEST")
    let lock = try file("LOCK")
    #expect(try lock.tryLock(shared: shared))
    #expect(try directory.tryLockIfSupported(shared: shared, standIn: "MANIFEST"))
    directory.allowParking(with: lock, standIn: "MANIFEST")
    return Locked(lock: lock, manifest: manifest)
  }

  /// Whether another process can lock the store: its `LOCK`, and the directory itself.
  private func lockable() throws -> (file: Bool, directory: Bool) {
    let other = try other()
    let file = try other.openOrCreateFile("LOCK")
    return (
      try file.tryLock(shared: false),
      try other.tryLockIfSupported(shared: false, standIn: "MANIFEST")
    )
  }

  @Test func aParkedDirectoryStaysLocked() throws {
    let locked = try locked()
    for _ in 0..<5 {
      #expect(directory.park())
      #expect(!locked.lock.hasDescriptor)
      #expect(try lockable() == (false, false))
      // The directory is opened again and has its own lock; the lock on `LOCK` stays.
      _ = try directory.entries()
      #expect(try lockable() == (false, false))
      #expect(try !other().tryLock(shared: true))
    }
    #expect(directory.park())
    locked.lock.unlock()
    directory.unlock()
    #expect(try lockable() == (true, true))
  }

  /// P9: item 15 of the crash kit. A deleted `LOCK` let a second writer in.
  @Test func aDeletedLockLetsNoSecondWriterIntoAParkedDirectory() throws {
    let locked = try locked()
    #expect(directory.park())
    try FileManager.default.removeItem(atPath: ground.path.appending("LOCK").string)
    #expect(try lockable() == (true, false))
    directory.unlock()
    #expect(try lockable() == (true, true))
    withExtendedLifetime(locked) {}
  }

  /// A child copies parked descriptors as it copies others: a child between `fork` and `exec` has
  /// copies.
  @Test func unlockingAParkedDirectoryUnlocksDespiteCopiesOfItsDescriptors() throws {
    let locked = try locked()
    let copies = try #require(Self.copies(of: ground.path))
    defer { for copy in copies { close(copy) } }
    #expect(copies.count >= 2)
    #expect(directory.park())
    #expect(try lockable() == (false, false))
    locked.lock.unlock()
    directory.unlock()
    #expect(try lockable() == (true, true))
  }

  static func copies(of path: FilePath) -> [CInt]? {
    var found: [CInt] = []
    var buffer = [CChar](repeating: 0, count: 4096)
    let names = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
    for number in (names ?? []).compactMap({ CInt($0) }).sorted() {
      let count = readlink("/proc/self/fd/\(number)", &buffer, 4095)
      guard count > 0 else { continue }
      let name = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
      if name == path.string || name == path.appending("LOCK").string { found.append(number) }
    }
    return found.map { dup($0) }
  }

  @Test func withoutItsStandInADirectoryKeepsItsDescriptor() throws {
    let lock = try file("LOCK")
    #expect(try lock.tryLock(shared: false))
    #expect(try directory.tryLock(shared: false))
    directory.allowParking(with: lock, standIn: "MANIFEST")
    #expect(!directory.park())
    #expect(try lockable() == (false, false))
  }

  /// Calls on many threads while another thread parks: no call uses a descriptor that was closed.
  @Test func callsAndParkingMayComeAtTheSameTime() async throws {
    let files = try (0..<4).map { number in
      let file = try file("\(number)")
      try file.write("\(number)\(number)\(number)\(number)", at: 0)
      file.allowParking()
      return file
    }
    directory.allowParking(with: files[0], standIn: nil)
    let directory = directory
    try await withThrowingTaskGroup(of: Void.self) { group in
      for worker in 0..<6 {
        group.addTask {
          for round in 0..<2000 {
            let number = (worker + round) % 4
            let bytes = try files[number].bytes(4, at: 0)
            #expect(bytes == [UInt8](repeating: UInt8(48 + number), count: 4))
          }
        }
      }
      group.addTask {
        for round in 0..<8000 {
          _ = files[round % 4].park()
          if round % 8 == 0 { _ = directory.park() }
        }
      }
      try await group.waitForAll()
    }
  }
}
