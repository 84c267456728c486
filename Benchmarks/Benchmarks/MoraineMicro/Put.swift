import Benchmark
import MoraineMaterial

func putBenchmarks() {
  Benchmark.on("put, new keys", scale: .kilo, isFilled: false) { benchmark, ground in
    let first = try await ground.store.count()
    let keys = Material.keys(first..<first + 1000)
    benchmark.startMeasurement()
    for (number, key) in keys.enumerated() {
      try await ground.store.set(ground.material.value(number), forKey: key)
    }
    benchmark.stopMeasurement()
    let value = try await ground.store.value(forKey: keys[999])
    try require(value.map { isSame($0, ground.material.value(999)) } == true, "put, new keys")
  }

  Benchmark.on("put, overwriting", scale: .kilo) { benchmark, ground in
    let numbers = ground.thousand(benchmark.currentIteration)
    try await ground.put(numbers, shift: 7)
    benchmark.stopMeasurement()
    try require(try await ground.store.count() == Ground.keyCount, "put, overwriting")
  }
}
