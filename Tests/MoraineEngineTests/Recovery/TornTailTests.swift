import Foundation
import MoraineEngine
import SystemPackage
import Testing

/// A torn tail is cut and reported; damage below what the log promised is an error.
///
/// A copy of the folder of an open store is what a killed process leaves.
@Suite struct TornTailTests {
  private func killedStore(
    _ directory: TestDirectory, mode: Store.Configuration.IOMode, durability: Durability
  ) async throws -> TestDirectory {
    let configuration = Store.Configuration.testing(ioMode: mode, durability: durability)
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<20 { try await store.set([UInt8(number)], forKey: Key("key \(number)")) }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  private func damage(_ directory: TestDirectory, after text: String) throws {
    let url = try #require(try directory.segments().first)
    var bytes = try Data(contentsOf: url)
    let place = try #require(bytes.range(of: Data(text.utf8)))
    bytes[place.upperBound] ^= 0xFF
    try bytes.write(to: url)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aKilledStoreKeepsEverythingAndCanBeKilledAgain(mode: Store.Configuration.IOMode) async throws
  {
    let directory = try TestDirectory()
    let copy = try await killedStore(directory, mode: mode, durability: .none)
    for _ in 0..<2 {
      let store = try Store(at: copy.path, configuration: .testing(ioMode: mode))
      #expect(try await store.count() >= 20)
      #expect(await store.recoveryReport.tornBytes == 0)
      // Recovery is complete only when writing after it works too.
      try await store.set([99], forKey: "afterwards", durability: .sync)
      try await store.close()
    }
    let store = try Store(at: copy.path, configuration: .testing(ioMode: mode))
    #expect(try await store.value(forKey: "afterwards") == [99])
    #expect(try await store.count() == 21)
    try await store.close()
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func anUnprovenRecordThatIsDamagedEndsTheLog(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let copy = try await killedStore(directory, mode: mode, durability: .none)
    try damage(copy, after: "key 15")
    let store = try Store(at: copy.path, configuration: .testing(ioMode: mode))
    let report = await store.recoveryReport
    #expect(report.tornBytes > 0)
    #expect(report.lastSequence.rawValue == 15)
    #expect(try await store.value(forKey: "key 14") == [14])
    #expect(try await store.value(forKey: "key 15") == nil)
    try await store.close()
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aProvenRecordThatIsDamagedIsAnError(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let copy = try await killedStore(directory, mode: mode, durability: .sync)
    try damage(copy, after: "key 15")
    do throws(StoreError) {
      _ = try Store(at: copy.path, configuration: .testing(ioMode: mode))
      Issue.record("lost acknowledged data without an error")
    } catch {
      #expect(error.code == .corrupted)
      #expect(error.file?.hasSuffix(".segment") == true)
      #expect(error.offset != nil)
    }
  }
}
