import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// The state of the stores of a process, as an opening in the same process sees it.
@Suite struct StorePhaseTests {
  /// Regression: between the end of a store's last reference and the end of its `deinit` the
  /// directory is locked, and an opening at that moment was refused. The test forces that moment.
  @Test func storeWithoutReferencesIsLeavingUntilItsLockIsFree() throws {
    let ground = try TestDirectory()
    try DiskStorage().createDirectory(ground.path)
    let directory = try #require(try DiskStorage().openDirectory(ground.path))
    let identity = try #require(directory.identity)
    #expect(StorePhase.holder(of: identity) == .elsewhere)
    let phase = StorePhase()
    phase.setDirectory(directory)
    var store: Store? = .inMemory()
    phase.opened(try #require(store))
    #expect(StorePhase.holder(of: identity) == .inUse)
    store = nil
    #expect(StorePhase.holder(of: identity) == .leaving)
    phase.end()
    #expect(StorePhase.holder(of: identity) == .elsewhere)
  }
}
