import Benchmark
import Foundation
import MoraineEngine
import MoraineMaterial
import SystemPackage

/// A store in its own folder, and the data for it.
struct Ground: Sendable {
  static let keyCount = 100_000

  let folder: URL
  let material: Material
  let store: Store

  /// - Parameter isFilled: whether the store contains every key.
  init(isFilled: Bool, durability: Durability = .none) async throws {
    folder = try makeFolder()
    material = Material(keyCount: Self.keyCount)
    store = try Store(at: Self.path(folder), configuration: configuration(durability))
    if isFilled { try await put(0..<Self.keyCount) }
  }

  func put(_ numbers: Range<Int>, shift: Int = 0) async throws {
    for number in numbers {
      try await store.set(material.value(number + shift), forKey: material.keys[number])
    }
  }

  /// Returns the numbers of a thousand stored keys, different ones in each iteration.
  func thousand(_ iteration: Int) -> Range<Int> {
    let start = iteration * 1000 % Self.keyCount
    return start..<start + 1000
  }

  static func path(_ folder: URL) -> FilePath {
    FilePath(folder.appendingPathComponent("store").path)
  }
}

/// Returns a configuration without background compaction, which would be measured with the row.
func configuration(_ durability: Durability = .none) -> Store.Configuration {
  var configuration = Store.Configuration()
  configuration.durability = durability
  configuration.compaction = .manual
  return configuration
}

func makeFolder() throws -> URL {
  let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
    "moraine-micro-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
  return folder
}

func require(_ condition: Bool, _ row: String) throws {
  if !condition { throw WrongAnswer(row) }
}

extension Benchmark {
  /// Adds a benchmark with its own ground, which is made before the benchmark and removed after it.
  static func on(
    _ name: String, scale: BenchmarkScalingFactor = .one, isFilled: Bool = true,
    durability: Durability = .none,
    _ body: @escaping (Benchmark, Ground) async throws -> Void
  ) {
    let place = Place()
    Benchmark(name, configuration: .init(scalingFactor: scale)) { benchmark, ground in
      try await body(benchmark, ground)
    } setup: {
      let ground = try await Ground(isFilled: isFilled, durability: durability)
      place.ground = ground
      return ground
    } teardown: {
      guard let ground = place.ground else { return }
      place.ground = nil
      try await ground.store.close()
      try FileManager.default.removeItem(at: ground.folder)
    }
  }
}

/// Holds the ground from setup to teardown. Safety of `@unchecked Sendable`: these calls come one
/// after the other.
private final class Place: @unchecked Sendable {
  var ground: Ground?
}
