import Benchmark
import MoraineEngine
import MoraineMaterial

func scanBenchmarks() {
  Benchmark.on("scan of 100,000 keys") { _, ground in
    let tally = Tally()
    try await ground.store.scan { entry in tally.take(entry) }
    try require(tally.isWhole, "scan")
  }

  Benchmark.on("scan of 100,000 keys, of a snapshot") { benchmark, ground in
    let snapshot = try await ground.store.snapshot()
    benchmark.startMeasurement()
    let tally = Tally()
    try snapshot.scan { entry in tally.take(entry) }
    try require(tally.isWhole, "scan")
  }
}

/// The records that a scan has seen, counted in a closure that runs in the store's actor.
private final class Tally: @unchecked Sendable {
  private var count = 0
  private var byteCount = 0

  func take(_ entry: Store.Entry) -> Bool {
    count += 1
    byteCount += entry.key.bytes.count + entry.value.count
    return true
  }

  var isWhole: Bool { count == Ground.keyCount && byteCount == Ground.keyCount * 116 }
}
