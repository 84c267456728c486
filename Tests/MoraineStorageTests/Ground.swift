import CTestSupport
import Foundation
import MoraineStorage
import SystemPackage
import Testing

/// The implementations, which must behave alike.
enum Medium: CaseIterable {
  case disk, memory
}

/// A storage with one empty directory, removed with this object.
final class Ground {
  /// Whether other tests of this process have every descriptor closed: a test cannot say which
  /// files are open then.
  static let othersPark = ProcessInfo.processInfo.environment["MORAINE_DESCRIPTORS"] != nil

  /// Whether the tests' directories are on a file system where mappings keep no locks: then no
  /// directory is parked.
  static let isOnOverlay =
    support_lies_on_overlay(FileManager.default.temporaryDirectory.path) != 0

  let storage: any Storage
  let path: FilePath
  let directory: any StorageDirectory
  private let root: URL?

  init(_ medium: Medium) throws {
    let name = "moraine-\(UUID().uuidString)"
    switch medium {
    case .disk:
      storage = DiskStorage()
      let root = FileManager.default.temporaryDirectory.appendingPathComponent(name)
      try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
      self.root = root
      path = FilePath(root.path).appending("store")
    case .memory:
      storage = MemoryStorage()
      root = nil
      path = FilePath("/\(name)/store")
    }
    try storage.createDirectory(path)
    directory = try #require(try storage.openDirectory(path))
  }

  deinit {
    guard let root else { return }
    do { try FileManager.default.removeItem(at: root) } catch { print("left: \(root.path)") }
  }
}

extension StorageFile {
  /// Up to `count` bytes, fewer at the end of the file.
  func bytes(_ count: Int, at offset: UInt64) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0xEE, count: count)
    let read = try bytes.withUnsafeMutableBytes { try self.read(into: $0, at: offset) }
    return Array(bytes.prefix(read))
  }

  func write(_ text: String, at offset: UInt64) throws {
    try Array(text.utf8).withUnsafeBytes { try write($0, at: offset) }
  }
}

/// The errno of the ``StorageError`` that the call throws.
func errno(of call: () throws -> Void) throws -> Errno {
  try #require(throws: StorageError.self, performing: call).errno
}
