import Foundation
import MoraineStorage
import SystemPackage
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// Failures that occur only on a disk.
@Suite("Disk storage") struct DiskStorageTests {
  private let ground: Ground
  private var manager: FileManager { .default }

  init() throws { ground = try Ground(.disk) }

  private func place(_ name: String) -> String { ground.path.appending(name).string }

  private func mode(_ path: String) throws -> Int {
    let attributes = try manager.attributesOfItem(atPath: path)
    return try #require(attributes[.posixPermissions] as? NSNumber).intValue
  }

  @Test func aLinkedDirectoryIsRefused() throws {
    let link = ground.path.removingLastComponent().appending("link")
    try manager.createSymbolicLink(atPath: link.string, withDestinationPath: ground.path.string)
    let refusal = try errno { _ = try ground.storage.openDirectory(link) }
    #expect(refusal == .notDirectory || refusal == .tooManySymbolicLinkLevels)
  }

  @Test func aLinkedFileIsRefused() throws {
    try ground.directory.createFile("real").write("hello", at: 0)
    try manager.createSymbolicLink(atPath: place("link"), withDestinationPath: place("real"))
    for access in [FileAccess.read, .readWrite] {
      let refusal = try errno { _ = try ground.directory.openFile("link", access) }
      #expect(refusal == .tooManySymbolicLinkLevels)
    }
    #expect(try errno { _ = try ground.directory.createFile("link") } == .fileExists)
    let entries = try ground.directory.entries()
    #expect(entries.first { $0.name == "link" }?.kind == .symbolicLink)
  }

  @Test(.timeLimit(.minutes(10))) func aPipeIsRefusedWithoutWaiting() throws {
    #expect(mkfifo(place("pipe"), 0o600) == 0)
    for access in [FileAccess.read, .readWrite] {
      let refusal = try errno { _ = try ground.directory.openFile("pipe", access) }
      #expect(refusal == .invalidArgument)
    }
    #expect(try ground.directory.entries().map(\.kind) == [.other])
  }

  @Test func aDirectoryIsNotAFile() throws {
    try ground.storage.createDirectory(ground.path.appending("inner"))
    for access in [FileAccess.read, .readWrite] {
      let refusal = try errno { _ = try ground.directory.openFile("inner", access) }
      #expect(refusal == .invalidArgument || refusal == .isDirectory)
    }
    #expect(try ground.directory.entries().map(\.kind) == [.directory])
  }

  @Test func createdEntriesAreReadableOnlyByTheOwner() throws {
    _ = try ground.directory.createFile("a")
    #expect(try mode(ground.path.string) == 0o700)
    #expect(try mode(place("a")) == 0o600)
  }

  @Test func aMovedDirectoryIsNotInPlace() throws {
    #expect(try ground.directory.isInPlace())
    let moved = ground.path.string + "-moved"
    try manager.moveItem(atPath: ground.path.string, toPath: moved)
    #expect(try !ground.directory.isInPlace())
    try ground.storage.createDirectory(ground.path)
    #expect(try !ground.directory.isInPlace())
    _ = try ground.directory.createFile("a")
    #expect(manager.fileExists(atPath: moved + "/a"))
  }

  /// The path is neither "in place" nor "moved": the system cannot tell.
  @Test func aPathThatLeadsInCirclesIsAnError() throws {
    let parent = ground.path.removingLastComponent().string
    try manager.moveItem(atPath: parent, toPath: parent + "-moved")
    defer {
      do {
        try manager.removeItem(atPath: parent)
        try manager.moveItem(atPath: parent + "-moved", toPath: parent)
      } catch {
        Issue.record(error)
      }
    }
    try manager.createSymbolicLink(atPath: parent, withDestinationPath: parent)
    let error = #expect(throws: StorageError.self) { try ground.directory.isInPlace() }
    #expect(error?.errno == .tooManySymbolicLinkLevels)
    #expect(error?.file == ground.path.string)
  }

  @Test func privateMappingOfNoBytesIsRefused() throws {
    let file = try ground.directory.createFile("a")
    let error = #expect(throws: StorageError.self) { _ = try file.mapPrivately(lengthBytes: 0) }
    #expect(error?.errno == .invalidArgument)
    #expect(error?.file == "a")
  }

  @Test func aFileIsNotADirectory() throws {
    _ = try ground.directory.createFile("a")
    let path = ground.path.appending("a")
    #expect(try errno { _ = try ground.storage.openDirectory(path) } == .notDirectory)
    let below = path.appending("b")
    #expect(try errno { _ = try ground.storage.openDirectory(below) } == .notDirectory)
    #expect(try errno { try ground.storage.createDirectory(below) } == .notDirectory)
    #expect(try errno { try ground.storage.createDirectory(path) } == .notDirectory)
  }

  @Test func aDirectoryNeedsAParent() throws {
    let deep = ground.path.appending("none").appending("below")
    #expect(try errno { try ground.storage.createDirectory(deep) } == .noSuchFileOrDirectory)
    #expect(try ground.storage.openDirectory(deep) == nil)
  }
}
