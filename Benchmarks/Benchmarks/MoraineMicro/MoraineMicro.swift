import Benchmark

let benchmarks: @Sendable () -> Void = {
  Benchmark("nothing") { _ in }
}
