import Benchmark
import MoraineEngine

func commitBenchmarks() {
  for tasks in [1, 16, 256] {
    // Each put of a task waits until it is on stable storage; the tasks share the syncs.
    Benchmark.on(
      "durable put, \(tasks) task\(tasks == 1 ? "" : "s"), one each", isFilled: false,
      durability: .sync
    ) { benchmark, ground in
      try await withThrowingTaskGroup { group in
        for task in 0..<tasks {
          group.addTask {
            try await ground.store.set(
              ground.material.value(task), forKey: ground.material.keys[task])
          }
        }
        try await group.waitForAll()
      }
      benchmark.stopMeasurement()
      let (last, durable) = (try await ground.store.lastSequence(), ground.store.durableSequence)
      try require(durable == last, "commit")
    }
  }
}
