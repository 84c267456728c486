import Foundation
import MoraineEngine
import SystemPackage
import Testing

/// The folder of an open store is moved, replaced or removed, on the real disk.
@Suite struct MovedDirectoryOnDiskTests {
  enum Mishap: CaseIterable, Sendable {
    case moved, replacedByAStore, replacedByALink
  }

  private static let configuration = Store.Configuration.testing(segmentSizeBytes: 1000)

  /// - Returns: the present place of the store.
  private func strike(_ mishap: Mishap, _ directory: TestDirectory) async throws -> URL {
    let elsewhere = directory.url.appendingPathComponent("elsewhere")
    try FileManager.default.moveItem(at: directory.store, to: elsewhere)
    switch mishap {
    case .moved: break
    case .replacedByAStore:
      try await withStore(at: directory.path, configuration: Self.configuration) { other in
        try await other.set([2], forKey: "other")
      }
    case .replacedByALink:
      // The link leads to the same place, and yet it is not the directory's own name.
      try FileManager.default.createSymbolicLink(
        at: directory.store, withDestinationURL: elsewhere)
    }
    return elsewhere
  }

  @Test(arguments: Mishap.allCases, [true, false])
  func movedDirectoryIsDetectedAtTheNextManifestSwap(_ mishap: Mishap, atClose: Bool) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration)
    try await store.set([1], forKey: "a", durability: .sync)
    let elsewhere = try await strike(mishap, directory)
    let forgery = Forgery(directory: directory)
    let before = mishap == .replacedByAStore ? try forgery.contents() : [:]
    var acknowledged = 0
    if atClose {
      let error = await #expect(throws: StoreError.self) { try await store.close() }
      #expect(error?.code == .storeReplaced)
    } else {
      var failure: StoreError?
      while failure == nil, acknowledged < 100 {
        do throws(StoreError) {
          try await store.set([UInt8](0..<50), forKey: Key("\(acknowledged)"))
          acknowledged += 1
        } catch {
          failure = error
        }
      }
      #expect(failure?.code == .storeReplaced)
      let error = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "b") }
      #expect(error?.code == .storeReplaced)
      #expect(try await store.value(forKey: "a") == [1])
      await #expect(throws: StoreError.self) { try await store.close() }
    }
    switch mishap {
    case .moved: #expect(!FileManager.default.fileExists(atPath: directory.store.path))
    case .replacedByAStore:
      #expect(try forgery.contents() == before)
    case .replacedByALink:
      let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
      #expect(error?.code == .notAStore)
    }
    let moved = try Store(at: FilePath(elsewhere.path), configuration: Self.configuration)
    #expect(try await moved.value(forKey: "a") == [1])
    for number in 0..<acknowledged { #expect(try await moved.contains(Key("\(number)"))) }
    #expect(try await moved.verify().isSound)
    try await moved.close()
  }

  /// The lock belongs to the folder, not to its name.
  @Test func movedStoreStaysLockedInItsNewPlace() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    let elsewhere = try await strike(.moved, directory)
    let error = #expect(throws: StoreError.self) { try Store(at: FilePath(elsewhere.path)) }
    #expect(error?.code == .locked)
    await #expect(throws: StoreError.self) { try await store.close() }
    try await withStore(at: FilePath(elsewhere.path)) { store in
      let count = try await store.count()
      #expect(count == 1)
    }
  }
}
