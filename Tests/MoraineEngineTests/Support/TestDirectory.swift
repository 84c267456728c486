import Foundation
import MoraineEngine
import MoraineStorage
import SystemPackage

/// A folder of its own for one test, removed at the end.
final class TestDirectory: Sendable {
  let url: URL
  var path: FilePath { FilePath(url.path).appending("store") }

  init() throws {
    // With 1, every descriptor that can be closed is closed whenever another file is opened.
    if let limit = ProcessInfo.processInfo.environment["MORAINE_DESCRIPTORS"].flatMap({ Int($0) }) {
      DescriptorPool.current.fixLimit(limit)
    }
    url = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit {
    do { try FileManager.default.removeItem(at: url) } catch { print("not removed: \(error)") }
  }

  var store: URL { url.appendingPathComponent("store") }

  func names() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: store.path).sorted()
  }

  /// Returns the number of descriptors of this process below the store; 0 where the system does not
  /// report them.
  func descriptorCount() throws -> Int {
    guard FileManager.default.fileExists(atPath: "/proc/self/fd") else { return 0 }
    let root = store.resolvingSymlinksInPath().path
    return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { number in
      var path = [CChar](repeating: 0, count: 4096)
      let length = readlink("/proc/self/fd/\(number)", &path, 4095)
      return length > 0
        && String(decoding: path[..<length].map(UInt8.init), as: UTF8.self).hasPrefix(root)
    }
  }

  func segments() throws -> [URL] {
    try names().filter { $0.hasSuffix(".segment") }.map { store.appendingPathComponent($0) }
  }
}

extension Store.Configuration {
  /// Returns the configuration of a test that looks into the hash index, or at the bytes of a
  /// manifest without ordered keyspaces.
  static func hashed(
    segmentSizeBytes: Int = 64 << 20, ioMode: IOMode = .mapped
  ) -> Store.Configuration {
    var configuration = testing(segmentSizeBytes: segmentSizeBytes, ioMode: ioMode)
    configuration.ordersKeyspaces = false
    return configuration
  }

  static func testing(
    segmentSizeBytes: Int = 64 << 20, ioMode: IOMode = .mapped, durability: Durability = .none
  ) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = segmentSizeBytes
    configuration.ioMode = ioMode
    configuration.durability = durability
    // No test is to depend on how fast it runs.
    configuration.idleInterval = .seconds(3600)
    configuration.ordersKeyspaces = ProcessInfo.processInfo.environment["MORAINE_ORDERED"] != nil
    // With 0, every store of every test has an index checkpoint, however small it is.
    if let floor = ProcessInfo.processInfo.environment["MORAINE_CHECKPOINT_FLOOR"] {
      configuration.checkpointFloorBytes = Int(floor) ?? configuration.checkpointFloorBytes
    }
    return configuration
  }
}
