import Benchmark
import MoraineMaterial

func batchBenchmarks() {
  for count in [10, 1000] {
    Benchmark.on("put, batches of \(count)", scale: .kilo) { benchmark, ground in
      let numbers = ground.thousand(benchmark.currentIteration)
      for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: count) {
        try await ground.store.write { [material = ground.material] batch in
          for number in start..<start + count {
            try batch.set(material.value(number + 7), forKey: material.keys[number])
          }
        }
      }
      benchmark.stopMeasurement()
      try require(try await ground.store.count() == Ground.keyCount, "batch")
    }
  }
}
