import MoraineStorage
import SystemPackage
import Testing

/// Effects that several users of one file or one name have on each other.
@Suite("Every storage, shared") struct SharingTests {
  @Test(arguments: Medium.allCases)
  func mappingsAndCallsSeeTheSameBytes(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("hello", at: 0)
    try file.allocate(from: 0, to: 8192)
    let mapping = try file.map(lengthBytes: 65_536, .readWrite)
    #expect(mapping.lengthBytes == 65_536)
    #expect(mapping.base.load(fromByteOffset: 4, as: UInt8.self) == UInt8(ascii: "o"))
    mapping.prefault(from: 0, to: 8192)
    mapping.base.storeBytes(of: UInt8(ascii: "J"), toByteOffset: 0, as: UInt8.self)
    let other = try #require(try ground.directory.openFile("a", .readWrite))
    #expect(try other.bytes(5, at: 0) == Array("Jello".utf8))
    try other.write("y!", at: 8000)
    #expect(mapping.base.load(fromByteOffset: 8001, as: UInt8.self) == UInt8(ascii: "!"))
    let second = try other.map(lengthBytes: 8192, .read)
    #expect(second.base.load(fromByteOffset: 0, as: UInt8.self) == UInt8(ascii: "J"))
    #expect(try errno { _ = try file.map(lengthBytes: 0, .read) } == .invalidArgument)
  }

  @Test(arguments: Medium.allCases)
  func aMappingOutlivesFileAndName(_ medium: Medium) throws {
    let ground = try Ground(medium)
    var file: (any StorageFile)? = try ground.directory.createFile("a")
    try file?.write("hello", at: 0)
    let mapping = try #require(try file?.map(lengthBytes: 5, .readWrite))
    file = nil
    try ground.directory.remove("a")
    #expect(mapping.base.load(as: UInt8.self) == UInt8(ascii: "h"))
  }

  @Test(arguments: Medium.allCases)
  func renamingReplaces(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let old = try ground.directory.createFile("target")
    try old.write("old", at: 0)
    try ground.directory.createFile("source").write("new", at: 0)
    try ground.directory.rename("source", to: "target")
    #expect(try ground.directory.openFile("source", .read) == nil)
    let found = try #require(try ground.directory.openFile("target", .read))
    #expect(try found.bytes(9, at: 0) == Array("new".utf8))
    #expect(try old.bytes(9, at: 0) == Array("old".utf8))
    let missing = try errno { try ground.directory.rename("source", to: "target") }
    #expect(missing == .noSuchFileOrDirectory)
  }

  @Test(arguments: Medium.allCases)
  func renamingBetweenTwoNamesOfAFileDoesNothing(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("hello", at: 0)
    // Where the file system makes a clone, the names are those of two files.
    guard try ground.directory.share("a", into: ground.directory, as: "b", linking: true),
      try ground.directory.extent(of: "b")?.identity == file.identity
    else { return }
    try ground.directory.rename("a", to: "b")
    #expect(try ground.directory.entries().map(\.name).sorted() == ["a", "b"])
  }

  @Test(arguments: Medium.allCases)
  func removingAFileTwiceIsNoError(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("a")
    try file.write("hello", at: 0)
    try ground.directory.remove("a")
    try ground.directory.remove("a")
    #expect(try ground.directory.entries().isEmpty)
    #expect(try file.bytes(5, at: 0) == Array("hello".utf8))
    #expect(try ground.directory.createFile("a").lengthBytes() == 0)
  }

  @Test(arguments: Medium.allCases)
  func aLockExcludesUntilItsFileIsReleased(_ medium: Medium) throws {
    let ground = try Ground(medium)
    var first: (any StorageFile)? = try ground.directory.createFile("LOCK")
    let second = try #require(try ground.directory.openFile("LOCK", .readWrite))
    #expect(try first?.tryLock(shared: false) == true)
    #expect(try first?.tryLock(shared: false) == true)
    #expect(try second.tryLock(shared: false) == false)
    #expect(try second.tryLock(shared: true) == false)
    first = nil
    #expect(try second.tryLock(shared: false) == true)
  }

  @Test(arguments: Medium.allCases)
  func sharedLocksExcludeOnlyExclusiveLocks(_ medium: Medium) throws {
    let ground = try Ground(medium)
    var first: (any StorageFile)? = try ground.directory.createFile("LOCK")
    let second = try #require(try ground.directory.openFile("LOCK", .read))
    let third = try #require(try ground.directory.openFile("LOCK", .readWrite))
    #expect(try first?.tryLock(shared: true) == true)
    #expect(try second.tryLock(shared: true) == true)
    #expect(try third.tryLock(shared: false) == false)
    first = nil
    #expect(try third.tryLock(shared: false) == false)
    #expect(try second.tryLock(shared: false) == true)
    #expect(try third.tryLock(shared: true) == false)
  }
}
