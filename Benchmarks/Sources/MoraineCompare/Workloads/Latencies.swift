import BenchmarkSupport
import Histogram

/// Measures the time of each single operation.
struct Latencies: Workload {
  static let name = "latencies"
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count) }

  var rows: [Report.Row] {
    Recorder.shownPercentiles.map { percentile in
      row(
        "put latency, \(percentile.name)", "single puts of keys that are there", durability: "none")
    } + Recorder.shownPercentiles.map { row("get latency, \($0.name)", "single gets") }
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: try make("latency", in: folder), SubjectOptions(data))
    for number in data.order { try await store.put(data.key(number), data.value(number)) }
    // Overwrite keys, so that the engine's garbage collection runs.
    var puts = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    for number in data.order.reversed() {
      let (key, value) = (data.key(number), data.value(number, generation: 1))
      let began = ContinuousClock.now
      try await store.put(key, value)
      puts.record(ContinuousClock.now.nanoseconds(since: began))
    }
    recorder.addLatency("put latency", puts)
    try await read(store, recorder.engine, &recorder)
    if let snapshots = store.snapshots {
      try await read(snapshots, SnapshotMaker.engine.name, &recorder)
    }
    try await store.close()
  }

  private func read<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var gets = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    var reader = try await maker.reader()
    for number in data.order {
      let (key, value) = (data.key(number), data.value(number, generation: 1))
      let began = ContinuousClock.now
      let isRight = try await reader.has(key, value)
      gets.record(ContinuousClock.now.nanoseconds(since: began))
      try recorder.check(isRight, "get latency")
    }
    recorder.addLatency("get latency", gets, engine: engine)
    reader.close()
  }
}

extension ContinuousClock.Instant {
  fileprivate func nanoseconds(since other: Self) -> UInt64 {
    let (seconds, attoseconds) = other.duration(to: self).components
    return UInt64(max(0, seconds * 1_000_000_000 + attoseconds / 1_000_000_000))
  }
}
