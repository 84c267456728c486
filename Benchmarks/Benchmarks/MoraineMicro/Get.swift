import Benchmark
import MoraineEngine
import MoraineMaterial

func getBenchmarks() {
  Benchmark.on("get", scale: .kilo) { benchmark, ground in
    for number in ground.thousand(benchmark.currentIteration) {
      let value = try await ground.store.value(forKey: ground.material.keys[number])
      try check(value, ground.material.value(number))
    }
  }

  Benchmark.on("get, absent keys", scale: .kilo) { benchmark, ground in
    let first = Ground.keyCount + benchmark.currentIteration * 1000
    let keys = Material.keys(first..<first + 1000)
    benchmark.startMeasurement()
    for key in keys {
      try require(try await ground.store.value(forKey: key) == nil, "get, absent keys")
    }
  }

  Benchmark.on("get, of a snapshot", scale: .kilo) { benchmark, ground in
    let snapshot = try await ground.store.snapshot()
    benchmark.startMeasurement()
    for number in ground.thousand(benchmark.currentIteration) {
      let value = try snapshot.value(forKey: ground.material.keys[number])
      try check(value, ground.material.value(number))
    }
  }

  Benchmark.on("get, a hundred at a time of a snapshot", scale: .kilo) { benchmark, ground in
    let snapshot = try await ground.store.snapshot()
    let numbers = ground.thousand(benchmark.currentIteration)
    benchmark.startMeasurement()
    for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
      let values = try snapshot.values(forKeys: Array(ground.material.keys[start..<start + 100]))
      for (number, value) in zip(start..., values) {
        try check(value, ground.material.value(number))
      }
    }
  }
}

private func check(_ value: [UInt8]?, _ expected: [UInt8]) throws {
  guard let value, isSame(value, expected) else { throw WrongAnswer("get") }
}
