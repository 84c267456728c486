import Foundation
import MoraineEngine
import Testing

@Suite struct LockInheritanceTests {
  /// Regression: a child between `fork` and `exec` has a copy of the lock's descriptor. Opening
  /// again after closing failed with `.locked` in a process that started other programs at the same
  /// time.
  @Test func closingUnlocksDespiteCopiesOfTheDescriptor() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    try await store.set([1], forKey: "a")
    let found = try copyOfDescriptor(directory.store.appendingPathComponent("LOCK"))
    // Where idle descriptors are closed at once, `ParkingTests` covers this.
    if found == nil, ProcessInfo.processInfo.environment["MORAINE_DESCRIPTORS"] != nil { return }
    let copy = try #require(found)
    defer { close(copy) }
    #expect(throws: StoreError.self) { try Store(at: directory.path) }
    try await store.close()
    let again = try Store(at: directory.path)
    #expect(try await again.value(forKey: "a") == [1])
    try await again.close()
  }

  /// Returns what a forked child has: the same open file under another number.
  private func copyOfDescriptor(_ url: URL) throws -> CInt? {
    var wanted = stat()
    try #require(stat(url.path, &wanted) == 0)
    for descriptor in 0..<CInt(1024) {
      var status = stat()
      if fstat(descriptor, &status) == 0, status.st_ino == wanted.st_ino,
        status.st_dev == wanted.st_dev
      {
        return dup(descriptor)
      }
    }
    return nil
  }
}
