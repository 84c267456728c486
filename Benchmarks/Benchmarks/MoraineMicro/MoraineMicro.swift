import Benchmark

/// One benchmark for each row. Each file is named after the operation that it measures.
///
/// Scripts/instructions counts instructions, allocations, retains and releases, because the
/// plugin's own counters need jemalloc and `perf_event_open`, and are zero without them. Its
/// processor time has steps of ten milliseconds, which is too coarse for so little work.
let benchmarks: @Sendable () -> Void = {
  Benchmark.defaultConfiguration = .init(
    metrics: [.wallClock, .throughput],
    warmupIterations: 1,
    maxDuration: .seconds(2),
    // The other percentiles depend more on the machine than on the store.
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
