import Benchmark
import Foundation
import MoraineEngine
import MoraineMaterial
import SystemPackage

func compactionBenchmarks() {
  for sharesDictionaries in [false, true] {
    let name = "compact 200,000 records, half live" + (sharesDictionaries ? ", dictionary" : "")
    Benchmark.on(name) { benchmark, ground in
      if try await ground.store.lastSequence().rawValue == Ground.keyCount {
        try await ground.put(0..<Ground.keyCount, shift: 7)
      }
      let copy = try ground.copy(benchmark.currentIteration)
      var configuration = configuration()
      configuration.compaction.sharesDictionaries = sharesDictionaries
      let store = try Store(at: FilePath(copy.path), configuration: configuration)
      // Otherwise the measurement would wait for writes that are not on disk yet.
      try await store.sync()
      benchmark.startMeasurement()
      let report = try await store.compact()
      benchmark.stopMeasurement()
      try require(report.outputBytes < report.inputBytes * 6 / 10, "compaction")
      for number in stride(from: 0, to: Ground.keyCount, by: 1000) {
        let value = try await store.value(forKey: ground.material.keys[number])
        try require(
          value.map { isSame($0, ground.material.value(number + 7)) } == true, "compaction")
      }
      try await store.close()
      try FileManager.default.removeItem(at: copy)
    }
  }
}
