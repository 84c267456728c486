import Benchmark

/// One benchmark a row; the files are named after what they measure.
///
/// Allocations and instructions are counted by Scripts/instructions: without jemalloc the counters of
/// this plugin read zero, and without `perf_event_open` those of instructions do.
let benchmarks: @Sendable () -> Void = {
  Benchmark.defaultConfiguration = .init(
    metrics: [.wallClock, .cpuTotal, .throughput],
    warmupIterations: 1,
    maxDuration: .seconds(2),
    // What two runs on a quiet machine differ by; other percentiles say more of the machine.
    thresholds: [
      .wallClock: .init(relative: [.p50: 10]), .cpuTotal: .init(relative: [.p50: 10]),
      .throughput: .init(relative: [.p50: 10]),
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
