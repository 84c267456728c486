import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

struct HeldLockTests {
  /// The object of the file may live longer, for example while its descriptor is being parked.
  @Test func endOfTheLockUnlocksTheFile() throws {
    let place = try TestDirectory()
    let storage = DiskStorage()
    try storage.createDirectory(place.path)
    let directory = try #require(try storage.openDirectory(place.path))
    let file = try directory.createFile("LOCK")
    #expect(try file.tryLock(shared: false))
    var lock: HeldLock? = HeldLock(file, directory, LockUse(StorePhase()))
    let other = try #require(try directory.openFile("LOCK", .readWrite))
    #expect(try !other.tryLock(shared: false))
    _ = lock
    lock = nil
    #expect(try other.tryLock(shared: false))
    withExtendedLifetime(file) {}
  }
}
