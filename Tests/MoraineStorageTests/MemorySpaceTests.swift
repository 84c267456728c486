import MoraineStorage
import SystemPackage
import Testing

/// A storage in memory can have any capacity that a test needs.
@Suite struct MemorySpaceTests {
  @Test func aSmallDiskIsFullWhenItsBlocksAreTaken() throws {
    let storage = MemoryStorage(capacityBytes: 3 * 4096)
    try storage.createDirectory("d")
    let directory = try #require(try storage.openDirectory("d"))
    let first = try directory.createFile("first")
    try first.allocate(from: 0, to: 4097)
    do {
      let second = try directory.createFile("second")
      try second.allocate(from: 0, to: 1)
      let error = #expect(throws: StorageError.self) { try second.allocate(from: 1, to: 4097) }
      #expect(error?.errno == .noSpace)
      #expect(try second.lengthBytes() == 1, "nothing was taken")
      try first.truncate(to: 4096)
      try second.allocate(from: 1, to: 4097)
      try directory.remove("second")
      #expect(throws: StorageError.self) { try first.allocate(from: 4096, to: 8193) }
    }
    // The file is removed, and no other process has it open.
    try first.allocate(from: 4096, to: 12_288)
  }
}
