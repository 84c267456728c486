import BenchmarkSupport
import MoraineEngine
import SystemPackage

/// Measures the memory of the index while it grows to twice its size.
struct IndexGrowth {
  private var readings: [(count: Int, bytesPerKey: Double)] = []

  init(from count: Int, step: Int, path: FilePath) async throws {
    let data = TestData(count: 2 * count)
    let store = try Store(at: path, configuration: Opening.configuration)
    for (done, number) in data.order.enumerated() {
      if done >= count, (done - count) % step == 0 { try await read(store) }
      try await store.set(data.value(number), forKey: data.key(number))
    }
    try await read(store)
    try await store.close()
  }

  private mutating func read(_ store: Store) async throws {
    let statistics = try await store.statistics()
    readings.append((statistics.count, statistics.indexBytesPerKey))
  }

  var grid: Grid {
    var grid = Grid(["", "keys", "bytes a key"])
    guard let first = readings.first, let last = readings.last,
      let worst = readings.max(by: { $0.bytesPerKey < $1.bytesPerKey }),
      let best = readings.min(by: { $0.bytesPerKey < $1.bytesPerKey })
    else { return grid }
    for (name, reading) in [("first", first), ("worst", worst), ("best", best), ("last", last)] {
      grid.add(name, ["\(reading.count)", decimal(reading.bytesPerKey)])
    }
    return grid
  }
}
