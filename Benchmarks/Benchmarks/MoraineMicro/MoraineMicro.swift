import Benchmark

/// One benchmark a row; the files are named after what they measure.
///
/// Instructions, allocations, retains and releases are what Scripts/instructions counts: the
/// plugin's own counters need jemalloc and `perf_event_open`, and read zero without. Its processor
/// time comes in steps of ten milliseconds, which is no measure of so little work.
let benchmarks: @Sendable () -> Void = {
  Benchmark.defaultConfiguration = .init(
    metrics: [.wallClock, .throughput],
    warmupIterations: 1,
    maxDuration: .seconds(2),
    // The other percentiles say more of the machine than of the store.
    thresholds: [
      .wallClock: .init(relative: [.p50: 10]), .throughput: .init(relative: [.p50: 10]),
    ])
  putBenchmarks()
  getBenchmarks()
  batchBenchmarks()
  scanBenchmarks()
  commitBenchmarks()
  openBenchmarks()
  compactionBenchmarks()
  repositoryBenchmarks()
}
