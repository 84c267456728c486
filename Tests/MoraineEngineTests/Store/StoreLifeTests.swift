import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// The state of the stores of a process, as an opening in the same process sees it.
@Suite struct StoreLifeTests {
  /// Regression: between the end of a store's last reference and the end of its `deinit` the
  /// directory is locked, and an opening at that moment was refused. The test forces that moment.
  @Test func storeWithoutReferencesIsLeavingUntilItsLockIsFree() throws {
    let ground = try TestDirectory()
    try DiskStorage().createDirectory(ground.path)
    let directory = try #require(try DiskStorage().openDirectory(ground.path))
    let identity = try #require(directory.identity)
    #expect(StoreLife.holder(of: identity) == .elsewhere)
    let life = StoreLife()
    life.took(directory)
    var store: Store? = .inMemory()
    life.opened(try #require(store))
    #expect(StoreLife.holder(of: identity) == .inUse)
    store = nil
    #expect(StoreLife.holder(of: identity) == .leaving)
    life.end()
    #expect(StoreLife.holder(of: identity) == .elsewhere)
  }
}
