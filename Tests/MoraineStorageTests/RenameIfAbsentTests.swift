import CMoraineShims
import Foundation
import MoraineStorage
import SystemPackage
import Testing

/// A file gets a name that is free, and keeps another file's name from being replaced.
@Suite("Every storage, renaming to a free name") struct RenameIfAbsentTests {
  private static func write(_ text: String, _ name: String, in ground: Ground) throws {
    try ground.directory.createFile(name).write(text, at: 0)
  }

  private static func text(of name: String, in ground: Ground) throws -> String? {
    try ground.directory.openFile(name, .read).map {
      String(decoding: try $0.bytes(99, at: 0), as: UTF8.self)
    }
  }

  @Test(arguments: Medium.allCases)
  func aFreeNameIsGiven(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let file = try ground.directory.createFile("source")
    try file.write("new", at: 0)
    #expect(try ground.directory.renameIfAbsent("source", to: "target"))
    #expect(try ground.directory.entries().map(\.name) == ["target"])
    #expect(try Self.text(of: "target", in: ground) == "new")
    #expect(try ground.directory.extent(of: "target")?.identity == file.identity)
  }

  @Test(arguments: Medium.allCases)
  func aNameInUseKeepsItsFile(_ medium: Medium) throws {
    let ground = try Ground(medium)
    try Self.write("old", "target", in: ground)
    try Self.write("new", "source", in: ground)
    #expect(try !ground.directory.renameIfAbsent("source", to: "target"))
    #expect(try Self.text(of: "target", in: ground) == "old")
    #expect(try Self.text(of: "source", in: ground) == "new")
  }

  @Test(arguments: Medium.allCases)
  func aMissingSourceIsAnError(_ medium: Medium) throws {
    let ground = try Ground(medium)
    let found = try errno { _ = try ground.directory.renameIfAbsent("source", to: "target") }
    #expect(found == .noSuchFileOrDirectory)
    try Self.write("old", "target", in: ground)
    let again = try errno { _ = try ground.directory.renameIfAbsent("source", to: "target") }
    #expect(again == .noSuchFileOrDirectory)
  }

  @Test(arguments: Medium.allCases)
  func oneOfManyCallsGetsTheName(_ medium: Medium) async throws {
    let ground = try Ground(medium)
    let directory = ground.directory
    for round in 0..<50 {
      let winners = try await withThrowingTaskGroup(of: String?.self) { group in
        for number in 0..<16 {
          let source = "\(round)-\(number)"
          try Self.write(source, source, in: ground)
          group.addTask {
            try directory.renameIfAbsent(source, to: "target-\(round)") ? source : nil
          }
        }
        return try await group.reduce(into: [String]()) { list, name in
          if let name { list.append(name) }
        }
      }
      #expect(winners.count == 1)
      #expect(try Self.text(of: "target-\(round)", in: ground) == winners.first)
    }
  }
}

/// Answers that a disk alone gives.
extension RenameIfAbsentTests {
  /// A network file system repeats a call whose answer was lost, and then reports that the name
  /// exists.
  @Test func aNameThatAnEarlierCallGaveCountsAsGiven() throws {
    let ground = try Ground(.disk)
    try Self.write("new", "source", in: ground)
    try FileManager.default.linkItem(
      atPath: ground.path.appending("source").string,
      toPath: ground.path.appending("target").string)
    #expect(try ground.directory.renameIfAbsent("source", to: "target"))
    #expect(try ground.directory.entries().map(\.name) == ["target"])
    #expect(try Self.text(of: "target", in: ground) == "new")
  }

  @Test func aDirectoryAndALinkKeepTheirNames() throws {
    let ground = try Ground(.disk)
    try ground.storage.createDirectory(ground.path.appending("folder"))
    try FileManager.default.createSymbolicLink(
      atPath: ground.path.appending("link").string, withDestinationPath: "nowhere")
    try Self.write("new", "source", in: ground)
    #expect(try !ground.directory.renameIfAbsent("source", to: "folder"))
    #expect(try !ground.directory.renameIfAbsent("source", to: "link"))
    let names = try ground.directory.entries().map(\.name).sorted()
    #expect(names == ["folder", "link", "source"])
  }

  @Test func aDirectoryWithoutPermissionIsReported() throws {
    guard getuid() != 0 else { return }
    let ground = try Ground(.disk)
    try Self.write("new", "source", in: ground)
    let manager = FileManager.default
    try manager.setAttributes([.posixPermissions: 0o500], ofItemAtPath: ground.path.string)
    defer {
      do {
        try manager.setAttributes([.posixPermissions: 0o700], ofItemAtPath: ground.path.string)
      } catch { Issue.record("the directory of a test stays: \(error)") }
    }
    let found = try errno { _ = try ground.directory.renameIfAbsent("source", to: "target") }
    #expect(found == .permissionDenied)
  }

  /// The way of file systems without hard links. Most others have it too, so it is tested there.
  @Test func aRenameWithoutALinkKeepsAnExistingFile() throws {
    let ground = try Ground(.disk)
    let directory = moraine_open_directory(ground.path.string)
    try #require(directory >= 0)
    defer { close(directory) }
    try Self.write("new", "source", in: ground)
    let answer = moraine_rename_exclusively(directory, "source", "target")
    if answer == -ENOTSUP { return }
    #expect(answer == 0)
    #expect(try ground.directory.entries().map(\.name) == ["target"])
    try Self.write("other", "source", in: ground)
    #expect(moraine_rename_exclusively(directory, "source", "target") == -EEXIST)
    #expect(try Self.text(of: "target", in: ground) == "new")
    #expect(moraine_rename_exclusively(directory, "missing", "free") == -ENOENT)
  }
}
