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

/// Short files of other programs.
@Suite(.timeLimit(.minutes(1))) struct SmallFileTests {
  private let ground: Ground

  init() throws { ground = try Ground(.disk) }

  private func path(_ name: String) -> FilePath { ground.path.appending(name) }

  private func write(_ text: String, to name: String) throws {
    try text.write(toFile: path(name).string, atomically: false, encoding: .utf8)
  }

  @Test func fileIsReadUpToItsLimit() throws {
    try write("keys", to: "a")
    try write("", to: "empty")
    #expect(try SmallFile.read(path("a"), limitBytes: 4) == Array("keys".utf8))
    #expect(try SmallFile.read(path("empty"), limitBytes: 0) == [])
    #expect(try SmallFile.read(path("missing"), limitBytes: 4) == nil)
    #expect(try SmallFile.read(path("missing/a"), limitBytes: 4) == nil)
    #expect(
      try errno { _ = try SmallFile.read(path("a"), limitBytes: 3) } == .fileTooLarge)
  }

  /// Regression: keys that Kubernetes puts on a machine were refused.
  @Test func linksAreFollowed() throws {
    let manager = FileManager.default
    try manager.createDirectory(atPath: path("..1").string, withIntermediateDirectories: false)
    try write("old", to: "..1/keys")
    try manager.createSymbolicLink(atPath: path("..data").string, withDestinationPath: "..1")
    try manager.createSymbolicLink(
      atPath: path("keys").string, withDestinationPath: "..data/keys")
    #expect(try SmallFile.read(path("keys"), limitBytes: 10) == Array("old".utf8))
    try manager.removeItem(atPath: path("..1/keys").string)
    #expect(try SmallFile.read(path("keys"), limitBytes: 10) == nil)
  }

  /// A pipe has no writer here, and would wait for one.
  @Test func directoriesAndPipesAreRefused() throws {
    try FileManager.default.createDirectory(
      atPath: path("folder").string, withIntermediateDirectories: false)
    #expect(mkfifo(path("pipe").string, 0o600) == 0)
    #expect(
      try errno { _ = try SmallFile.read(path("folder"), limitBytes: 10) } == .isDirectory)
    #expect(
      try errno { _ = try SmallFile.read(path("pipe"), limitBytes: 10) } == .illegalSeek)
  }
}
