import Benchmark
import Foundation
import MoraineEngine
import MoraineMaterial
import SystemPackage

func openBenchmarks() {
  Benchmark.on("open and first get, 100,000 keys, closed orderly") { benchmark, ground in
    // Closing a store without new writes does not change it.
    try await ground.store.close()
    try await open(benchmark, Ground.path(ground.folder), ground.material)
  }

  Benchmark.on("open and first get, 100,000 keys to replay") { benchmark, ground in
    // The present files, as a killed process leaves them.
    let copy = try ground.copy(benchmark.currentIteration)
    try await open(benchmark, FilePath(copy.path), ground.material)
    try FileManager.default.removeItem(at: copy)
  }
}

private func open(_ benchmark: Benchmark, _ path: FilePath, _ material: Material) async throws {
  benchmark.startMeasurement()
  let store = try Store(at: path, configuration: configuration())
  let value = try await store.value(forKey: material.keys[1])
  benchmark.stopMeasurement()
  try require(value.map { isSame($0, material.value(1)) } == true, "open")
  try require(try await store.count() == Ground.keyCount, "open")
  try await store.close()
}

extension Ground {
  /// Copies the store's present files into a folder for one iteration.
  func copy(_ iteration: Int) throws -> URL {
    let copy = folder.appendingPathComponent("copy-\(iteration)")
    if FileManager.default.fileExists(atPath: copy.path) {
      try FileManager.default.removeItem(at: copy)
    }
    try FileManager.default.copyItem(at: folder.appendingPathComponent("store"), to: copy)
    return copy
  }
}
