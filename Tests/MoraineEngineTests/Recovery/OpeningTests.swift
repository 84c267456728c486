import Foundation
import MoraineEngine
import SystemPackage
import Testing

/// Paths that are no store, and the errors that opening throws for them.
@Suite struct OpeningTests {
  private func code(
    _ path: FilePath, _ configuration: Store.Configuration = .testing()
  ) -> StoreError.Code? {
    do throws(StoreError) {
      _ = try Store(at: path, configuration: configuration)
      return nil
    } catch {
      return error.code
    }
  }

  @Test func aFileOrALinkInTheStoresPlaceIsNoStore() async throws {
    let directory = try TestDirectory()
    try Data("text".utf8).write(to: directory.store)
    #expect(code(directory.path) == .notAStore)
    #expect(try Data(contentsOf: directory.store) == Data("text".utf8))
    try FileManager.default.removeItem(at: directory.store)
    try FileManager.default.createSymbolicLink(
      at: directory.store, withDestinationURL: directory.url)
    #expect(code(directory.path) == .notAStore)
  }

  @Test func aLinkInASegmentsPlaceIsRefused() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let segment = try #require(try directory.segments().first)
    let elsewhere = directory.url.appendingPathComponent("elsewhere")
    try FileManager.default.moveItem(at: segment, to: elsewhere)
    try FileManager.default.createSymbolicLink(at: segment, withDestinationURL: elsewhere)
    #expect(code(directory.path) == .notAStore)
  }

  @Test func openingAMissingStoreWithoutCreationIsAnError() throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing()
    configuration.createIfMissing = false
    #expect(code(directory.path, configuration) == .notAStore)
  }

  /// An older manifest beside newer segments mixes two moments, and is no store.
  @Test func aStaleManifestIsRefused() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 256)
    let manifest = directory.store.appendingPathComponent("MANIFEST")
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([1], forKey: "a")
    }
    let old = try Data(contentsOf: manifest)
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([2], forKey: "a")
    }
    try old.write(to: manifest)
    #expect(code(directory.path) == .corrupted)
  }

  @Test func aReadOnlyStoreReadsAndRefusesToWrite() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    var configuration = Store.Configuration.testing()
    configuration.isReadOnly = true
    let before = try directory.names()
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.value(forKey: "a") == [1])
    do throws(StoreError) {
      try await store.set([2], forKey: "a")
      Issue.record("wrote to a read-only store")
    } catch {
      #expect(error.code == .readOnly)
    }
    try await store.close()
    #expect(try directory.names() == before)
  }
}
