import Foundation
import Moraine
import Testing

/// A program opens a store without importing a second package.
@Suite struct StorePathTests {
  @Test func pathAsStringFilePathAndURLLeadToOneStore() async throws {
    let folder = try Folder()
    let url = folder.url.appendingPathComponent("store with a space")
    let path: String = url.path
    let first = try Store(at: url)
    try await first.set([1], forKey: "a")
    try await first.close()
    let second = try Store(at: path)
    #expect(try await second.value(forKey: "a") == [1])
    try await second.close()
    let third = try await Store.open(at: url)
    try await third.close()
    let fourth = try await Store.open(at: path)
    try await fourth.close()
    #expect(try await withStore(at: url) { try await $0.value(forKey: "a") } == [1])
    #expect(try await withStore(at: path) { try await $0.value(forKey: "a") } == [1])
  }

  @Test func urlThatIsNoFilesIsRefused() async throws {
    let url = try #require(URL(string: "https://example.com/store"))
    let error = #expect(throws: StoreError.self) { _ = try Store(at: url) }
    #expect(error?.code == .invalidArgument)
  }
}
