import MoraineStorage
import SystemPackage
import Testing

@Suite("Memory storage") struct MemoryStorageTests {
  @Test func mappedFileDoesNotMove() throws {
    let file = try Ground(.memory).directory.createFile("a")
    try file.write("hello", at: 0)
    let mapping = try file.map(lengthBytes: 10_000, .readWrite)
    try file.allocate(from: 5, to: 10_000)
    try file.write("x", at: 9_999)
    #expect(try errno { try file.write("xx", at: 9_999) } == .noMemory)
    #expect(try errno { try file.allocate(from: 0, to: 10_001) } == .noMemory)
    #expect(try errno { try file.truncate(to: 10_001) } == .noMemory)
    #expect(try errno { _ = try file.map(lengthBytes: 10_001, .read) } == .noMemory)
    #expect(try file.map(lengthBytes: 10, .read).base == mapping.base)
    #expect(try file.lengthBytes() == 10_000)
  }

  @Test func aReplacedDirectoryIsNotInPlace() throws {
    let storage = MemoryStorage()
    try storage.createDirectory("a")
    try storage.createDirectory("b")
    let first = try #require(try storage.openDirectory("a"))
    let second = try #require(try storage.openDirectory("b"))
    _ = try first.createFile("kept")
    #expect(try first.isInPlace() && second.isInPlace())
    try storage.renameDirectory("a", to: "b")
    #expect(try !first.isInPlace() && !second.isInPlace())
    let moved = try #require(try storage.openDirectory("b"))
    #expect(try moved.isInPlace())
    #expect(try moved.entries().map(\.name) == ["kept"])
    #expect(try storage.openDirectory("a") == nil)
    let missing = try errno { try storage.renameDirectory("a", to: "b") }
    #expect(missing == .noSuchFileOrDirectory)
  }
}
