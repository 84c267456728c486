import Foundation
import MoraineEngine
import SystemPackage

/// A folder of its own for one test, removed at the end.
final class TestDirectory {
  let url: URL
  var path: FilePath { FilePath(url.path).appending("store") }

  init() throws {
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

  func segments() throws -> [URL] {
    try names().filter { $0.hasSuffix(".segment") }.map { store.appendingPathComponent($0) }
  }
}

extension Configuration {
  static func testing(
    segmentSizeBytes: Int = 64 << 20, ioMode: IOMode = .mapped, durability: Durability = .none
  ) -> Configuration {
    var configuration = Configuration()
    configuration.segmentSizeBytes = segmentSizeBytes
    configuration.ioMode = ioMode
    configuration.durability = durability
    return configuration
  }
}

/// Numbers that a seed repeats (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
