import MoraineStorage
import SystemPackage
import Testing

@Suite("Every storage") struct StorageTests {
  @Test(arguments: Medium.allCases)
  func directoriesAreMadeOnceAndFound(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let other = ground.path.removingLastComponent().appending("other")
    #expect(try ground.storage.openDirectory(other) == nil)
    try ground.storage.createDirectory(other)
    let directory = try #require(try ground.storage.openDirectory(other))
    #expect(directory.path == other)
    _ = try directory.createFile("a")
    try ground.storage.createDirectory(other)
    let again = try #require(try ground.storage.openDirectory(other))
    #expect(try again.entries().map(\.name) == ["a"])
    #expect(try again.isInPlace())
    try again.synchronize()
  }

  @Test(arguments: Medium.allCases)
  func filesAreCreatedOnceAndFound(_ medium: Medium) throws {
    let ground = try Ground(medium)
    #expect(try ground.directory.openFile("a", .read) == nil)
    let file = try ground.directory.createFile("a")
    #expect(try file.lengthBytes() == 0)
    #expect(try errno { _ = try ground.directory.createFile("a") } == .fileExists)
    try file.write("hello", at: 0)
    try file.synchronize(.data)
    try file.synchronize(.full)
    let opened = try #require(try ground.directory.openFile("a", .read))
    #expect(try opened.bytes(5, at: 0) == Array("hello".utf8))
    let entries = try ground.directory.entries()
    #expect(entries.map(\.name) == ["a"])
    #expect(entries.map(\.kind) == [.regular])
    #expect(entries.map(\.lengthBytes) == [5])
  }

  @Test(arguments: Medium.allCases)
  func readsEndWithTheFile(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    #expect(try file.bytes(4, at: 0) == [])
    try file.write("hello", at: 0)
    #expect(try file.bytes(9, at: 3) == Array("lo".utf8))
    #expect(try file.bytes(9, at: 5) == [])
    #expect(try file.bytes(9, at: 99) == [])
    #expect(try file.bytes(0, at: 0) == [])
  }

  @Test(arguments: Medium.allCases)
  func writesLandAtTheirOffset(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("xy", at: 3)
    #expect(try file.bytes(9, at: 0) == [0, 0, 0] + Array("xy".utf8))
    try file.write("abcd", at: 0)
    #expect(try file.bytes(9, at: 0) == Array("abcdy".utf8))
    let large = [UInt8](repeating: 7, count: 300_000)
    try large.withUnsafeBytes { try file.write($0, at: 5) }
    #expect(try file.lengthBytes() == 300_005)
    #expect(try file.bytes(400_000, at: 0) == Array("abcdy".utf8) + large)
  }

  @Test(arguments: Medium.allCases)
  func aFileOpenedToReadIsNotWritten(_ medium: Medium) throws {
    let ground = try Ground(medium)
    try ground.directory.createFile("a").write("hello", at: 0)
    let file = try #require(try ground.directory.openFile("a", .read))
    #expect(try errno { try file.write("x", at: 0) } == .badFileDescriptor)
    #expect(try errno { try file.truncate(to: 0) } == .invalidArgument)
    #expect(try errno { try file.allocate(from: 0, to: 9) } == .badFileDescriptor)
    #expect(try errno { _ = try file.map(lengthBytes: 5, .readWrite) } == .permissionDenied)
    #expect(try file.bytes(9, at: 0) == Array("hello".utf8))
  }

  @Test(arguments: Medium.allCases)
  func truncatedBytesReadAsZerosAfterGrowth(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("hello", at: 0)
    try file.truncate(to: 2)
    #expect(try file.bytes(9, at: 0) == Array("he".utf8))
    try file.truncate(to: 6)
    #expect(try file.bytes(9, at: 0) == Array("he".utf8) + [0, 0, 0, 0])
    try file.truncate(to: 1)
    try file.write("!", at: 3)
    #expect(try file.bytes(9, at: 0) == Array("h\0\0!".utf8))
  }

  @Test(arguments: Medium.allCases)
  func allocatingExtendsWithZerosAndCutsNothing(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("hello", at: 0)
    try file.allocate(from: 5, to: 10_000)
    #expect(try file.lengthBytes() == 10_000)
    #expect(try file.bytes(20_000, at: 5) == [UInt8](repeating: 0, count: 9_995))
    try file.allocate(from: 0, to: 100)
    try file.allocate(from: 50, to: 50)
    #expect(try file.lengthBytes() == 10_000)
    #expect(try file.bytes(5, at: 0) == Array("hello".utf8))
  }

  /// Regression: the program ended where the system had no memory for a copy of a file.
  @Test(arguments: Medium.allCases)
  func aCopyThatIsLargerThanMemoryIsATypedError(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    #expect(try errno { _ = try file.readPrivately(lengthBytes: 1 << 60) } == .noMemory)
    if medium == .disk {
      #expect(try errno { _ = try file.mapPrivately(lengthBytes: 1 << 60) } == .noMemory)
    }
  }
}
